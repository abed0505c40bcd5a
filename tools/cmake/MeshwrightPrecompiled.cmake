# Headers that most sources include, compiled once: those of the standard library for all layers,
# with Catch2 for tests. Sources include what they use all the same: the preset `tsan`, which goes
# without, finds what models and exec forgot.
#
# g++ optimises a source as it did the precompiled header, whatever the source's own -O says. So there
# is a set for each: `cold_headers` are for targets with the options of meshwright_cold, and
# `test_headers` for tests, which have the same.
set(header_sets standard_headers cold_headers)
if(NOT MESHWRIGHT_SELF_CONTAINED)
  list(APPEND header_sets test_headers)
endif()
foreach(name ${header_sets})
  add_library(${name} OBJECT ${CMAKE_CURRENT_LIST_DIR}/precompiled.cpp)
  target_link_libraries(${name} PRIVATE meshwright_options)
  target_precompile_headers(${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/standard_headers.h)
endforeach()
target_link_libraries(cold_headers PRIVATE meshwright_cold)
if(TARGET test_headers)
  target_link_libraries(test_headers PRIVATE Catch2::Catch2)
  target_compile_options(test_headers PRIVATE "${meshwright_test_options}")
  target_precompile_headers(test_headers PRIVATE ${PROJECT_SOURCE_DIR}/tests/catch.h)
endif()

# use_precompiled(<headers> [<target>...]): these targets use them; or, where none is named, every
# target of this folder that uses none yet. Sources with an instruction set or an optimisation of their
# own cannot, and have the property SKIP_PRECOMPILE_HEADERS.
function(use_precompiled headers)
  set(targets ${ARGN})
  if(NOT targets)
    get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  endif()
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(used ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    if(NOT type MATCHES "UTILITY|INTERFACE" AND NOT used)
      target_precompile_headers(${target} REUSE_FROM ${headers})
    endif()
  endforeach()
endfunction()
