# Tests of a self-contained build: the file plans in an empty root as it does here, and the Python module answers as the
# file does. tools/packages/check_static and tools/python/check compare them with the ordinary program.
add_test(NAME static_file COMMAND ${PROJECT_SOURCE_DIR}/tools/packages/check_static $<TARGET_FILE:meshwright> $<TARGET_FILE:meshwright>)
set_tests_properties(static_file PROPERTIES LABELS cpu TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME library_paths COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/library_paths ${CMAKE_BINARY_DIR})
set_tests_properties(library_paths PROPERTIES LABELS cpu SKIP_RETURN_CODE 77)
if(MESHWRIGHT_PYTHON)
  add_test(NAME python_module COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/tools/compare_python.py $<TARGET_FILE:meshwright>
           ${PROJECT_SOURCE_DIR}/scenarios/quickstart-plan.json)
  set_tests_properties(python_module PROPERTIES LABELS cpu TIMEOUT 300 ENVIRONMENT PYTHONPATH=${CMAKE_BINARY_DIR}/python)
else()
  add_test(NAME python_module COMMAND ${CMAKE_COMMAND} -E echo "skipped: no Python module (-DMESHWRIGHT_PYTHON=ON)")
  set_tests_properties(python_module PROPERTIES LABELS cpu SKIP_REGULAR_EXPRESSION "^skipped")
endif()
