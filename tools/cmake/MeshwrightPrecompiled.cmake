# Headers that most sources include, compiled once: those of the standard library for all layers,
# with Catch2 for tests. Sources include what they use all the same: the preset `tsan`, which goes
# without, finds what models and exec forgot.
set(header_sets standard_headers)
if(NOT MESHWRIGHT_SELF_CONTAINED)
  list(APPEND header_sets test_headers)
endif()
foreach(name ${header_sets})
  add_library(${name} OBJECT ${CMAKE_CURRENT_LIST_DIR}/precompiled.cpp)
  target_link_libraries(${name} PRIVATE meshwright_options)
endforeach()
target_precompile_headers(standard_headers PRIVATE ${CMAKE_CURRENT_LIST_DIR}/standard_headers.h)
if(TARGET test_headers)
  target_link_libraries(test_headers PRIVATE Catch2::Catch2)
  target_precompile_headers(test_headers PRIVATE ${CMAKE_CURRENT_LIST_DIR}/standard_headers.h
                            ${PROJECT_SOURCE_DIR}/tests/catch.h)
endif()

# Every target of this folder uses them. Sources with an instruction set of their own cannot, and
# have the property SKIP_PRECOMPILE_HEADERS.
function(use_precompiled headers)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "UTILITY|INTERFACE")
      target_precompile_headers(${target} REUSE_FROM ${headers})
    endif()
  endforeach()
endfunction()
