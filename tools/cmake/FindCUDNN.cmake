# CUDNN::frontend: the headers of cuDNN 9 and of cudnn-frontend, from the CUDA toolkit's folders, the
# system's, CUDNN_ROOT, or a Python environment's packages nvidia-cudnn-cu13 and nvidia-cudnn-frontend
# (CUDNN_ROOT=.../site-packages). The library itself is loaded when a program starts.
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include nvidia/cudnn/include)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_numbers REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  list(TRANSFORM cudnn_numbers REPLACE "[^0-9]" "")
  list(JOIN cudnn_numbers "." CUDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_INCLUDE_DIR CUDNN_FRONTEND_INCLUDE_DIR
                                  VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::frontend)
  add_library(CUDNN::frontend INTERFACE IMPORTED GLOBAL)
  target_include_directories(CUDNN::frontend SYSTEM INTERFACE ${CUDNN_INCLUDE_DIR} ${CUDNN_FRONTEND_INCLUDE_DIR})
  target_compile_definitions(CUDNN::frontend INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
  target_link_libraries(CUDNN::frontend INTERFACE ${CMAKE_DL_LIBS})
endif()
