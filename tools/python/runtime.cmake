# meshwright/_runtime.abi3.so, in build/PRESET/python beside the package's sources: what a user's own
# script runs with where PYTHONPATH names that folder.
set(package ${CMAKE_BINARY_DIR}/python/meshwright)
Python_add_library(python_runtime MODULE python/runtime_module.cpp python/calls.cpp)
target_compile_definitions(python_runtime PRIVATE Py_LIMITED_API=0x03080000)
target_link_libraries(python_runtime PRIVATE commands engine)
target_link_options(python_runtime PRIVATE -Wl,--gc-sections
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/python/exported_runtime.map)
set_target_properties(python_runtime PROPERTIES OUTPUT_NAME _runtime SUFFIX .abi3.so
                      LIBRARY_OUTPUT_DIRECTORY ${package})
file(MAKE_DIRECTORY ${package})
file(GLOB names CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/python/meshwright python/meshwright/*)
list(REMOVE_ITEM names __pycache__)
foreach(name IN LISTS names)
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/python/meshwright/${name} ${package}/${name} SYMBOLIC)
endforeach()
