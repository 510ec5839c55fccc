# SPDX-License-Identifier: Apache-2.0
# plimsoll_embed(TARGET FILE SYMBOL): compiles a data file of catalog/ into TARGET, so that the
# program is one file. SYMBOL becomes a std::string_view in namespace plimsoll::catalog.
function(plimsoll_embed target file symbol)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DSYMBOL=${symbol}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
