# SPDX-License-Identifier: Apache-2.0
# libplimsoll.so: all modules behind include/plimsoll, and the CMake package that finds it once it is installed:
#   find_package(plimsoll REQUIRED)
#   target_link_libraries(program PRIVATE plimsoll::plimsoll)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/library/*.cpp)
add_library(plimsoll_shared SHARED ${sources})
set_target_properties(plimsoll_shared PROPERTIES OUTPUT_NAME plimsoll EXPORT_NAME plimsoll
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(plimsoll_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(plimsoll_shared INTERFACE cxx_std_20)
target_include_directories(plimsoll_shared PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(plimsoll_shared PRIVATE plimsoll_options plimsoll_cli)
# What is not in plimsoll::api is nobody's business.
target_link_options(plimsoll_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/library.map)
set_target_properties(plimsoll_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/library.map)

install(TARGETS plimsoll)
install(TARGETS plimsoll_http_server LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/plimsoll)
install(TARGETS plimsoll_shared EXPORT plimsoll)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
install(EXPORT plimsoll NAMESPACE plimsoll:: FILE plimsollConfig.cmake DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/plimsollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plimsollConfigVersion.cmake DESTINATION ${package})
