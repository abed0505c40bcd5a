# The CUDA of GPUs that are not there, for rehearsals: one library under the name of the driver's, which is
# preloaded so that it answers for the runtime, cuBLAS, cuDNN, NCCL and CUPTI too. It needs their headers alone.
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES . ../extras/CUPTI/include)
find_path(CUDNN_HEADERS cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(NCCL_HEADERS nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT CUDAToolkit_FOUND OR NOT CUPTI_INCLUDE_DIR OR NOT CUDNN_HEADERS OR NOT NCCL_HEADERS)
  message(STATUS "rehearsals: not built, for they need the headers of CUDA, cuDNN, NCCL and CUPTI")
  return()
endif()
file(GLOB stand_in_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_library(stand_in MODULE ${stand_in_sources})
target_link_libraries(stand_in PRIVATE meshwright_options ${CMAKE_DL_LIBS})
target_include_directories(stand_in SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUPTI_INCLUDE_DIR} ${CUDNN_HEADERS}
                           ${NCCL_HEADERS})
target_link_options(stand_in PRIVATE -Wl,-soname,libcuda.so.1)
set_target_properties(stand_in PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1 UNITY_BUILD OFF
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/meshwright/stand_in)
# Programs look for NVML under a name of its own: the same library answers.
add_custom_command(TARGET stand_in POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink libcuda.so.1
                   ${CMAKE_BINARY_DIR}/python/meshwright/stand_in/libnvidia-ml.so.1)
