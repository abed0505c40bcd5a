# embed_files(<source> HEADER <header> ROOM <room> FUNCTION <name> [ROOT <folder>] FILES <files...>): writes a C++ source
# whose function, in the room's namespace, is a span of BuiltInFile (models/core/built_in_files.h). A name there is a path
# from ROOT, or without its folder.
function(embed_files source)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "HEADER;ROOM;FUNCTION;ROOT" "FILES")
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DSOURCE=${source}" "-DHEADER=${given_HEADER}" "-DROOM=${given_ROOM}"
            "-DFUNCTION=${given_FUNCTION}" "-DROOT=${given_ROOT}" "-DFILES=${given_FILES}" -P ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    DEPENDS ${given_FILES} ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake VERBATIM)
endfunction()
