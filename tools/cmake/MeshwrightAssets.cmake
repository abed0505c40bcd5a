# embed_assets(<source> <files...>): writes a C++ source that holds the files, for tools/report/assets.h.
function(embed_assets source)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DSOURCE=${source}" "-DFILES=${ARGN}" -P ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake VERBATIM)
endfunction()
