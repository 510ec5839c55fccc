# SPDX-License-Identifier: Apache-2.0
# plimsoll_unity(TARGET SOURCES...): compiles sources that tools/unity-groups finds to be independent as one. Their
# headers are parsed and their templates instantiated once: about half the processor time of a build.
# The groups follow the names in the sources, so that a changed source configures again (a second).
# Sources that reach the web server, by themselves or through the list of verbs, have groups of their own: a library
# takes from an archive the objects that it calls, and has no use for a server.
function(plimsoll_unity target)
  set(server)
  set(others)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} reaches LIMIT_COUNT 1 REGEX "#include \"(http/|serve/|live/exporter)|[^_a-z]verbs\\(\\)")
    if(reaches)
      list(APPEND server ${source})
    else()
      list(APPEND others ${source})
    endif()
  endforeach()
  foreach(set IN ITEMS server others)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/unity-groups ${${set}}
      OUTPUT_VARIABLE rows OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" rows "${rows}")
    foreach(row IN LISTS rows)
      string(REGEX MATCH "^([0-9]+) (.+)$" row "${row}")
      set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${set}_${CMAKE_MATCH_1})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/unity-groups)
endfunction()
