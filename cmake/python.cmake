# SPDX-License-Identifier: Apache-2.0
# The Python package in build/.../python, ready to be imported from there: PYTHONPATH=build/release/python.
find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
set(PYBIND11_FINDPYTHON ON)
set(Python_EXECUTABLE ${Python3_EXECUTABLE})
find_package(pybind11 REQUIRED)

set(package ${CMAKE_BINARY_DIR}/python/plimsoll)
pybind11_add_module(plimsoll_python MODULE NO_EXTRAS ${PROJECT_SOURCE_DIR}/python/core.cpp)
set_target_properties(plimsoll_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${package})
target_link_libraries(plimsoll_python PRIVATE plimsoll_library)
target_link_options(plimsoll_python PRIVATE -Wl,--exclude-libs,ALL)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/plimsoll/*)
list(APPEND sources ${PROJECT_SOURCE_DIR}/python/plimsoll_capture.py)
add_custom_command(OUTPUT ${package}/.copied
  COMMAND ${CMAKE_COMMAND} -E copy ${sources} ${package}
  COMMAND ${CMAKE_COMMAND} -E touch ${package}/.copied
  DEPENDS ${sources})
add_custom_target(plimsoll_python_sources ALL DEPENDS ${package}/.copied)
add_dependencies(plimsoll_python plimsoll_python_sources)
