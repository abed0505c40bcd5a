# Sources of one folder are compiled eight at a time: what they include, JSON above all, takes longer
# to compile than what they say. A source with compile options or definitions of its own is compiled
# alone.

# unite_sources(<target> [GROUPS <number>] [ALONE <folder or source>...]). What defines names that its
# neighbours define too, in a namespace without a name, is compiled alone. With GROUPS the number of
# groups is given, and a source's name says which one it is in, so that a new source changes one group.
function(unite_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 given "" GROUPS ALONE)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    if(folder IN_LIST given_ALONE OR source IN_LIST given_ALONE)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "${target}_${folder}" group)
    if(given_GROUPS)
      string(MD5 hash ${source})
      string(SUBSTRING ${hash} 0 4 hash)
      math(EXPR batch "0x${hash} % ${given_GROUPS}")
    else()
      math(EXPR count_${group} "0${count_${group}} + 1")
      math(EXPR batch "(${count_${group}} - 1) / 8")
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}_${batch}")
  endforeach()
endfunction()
