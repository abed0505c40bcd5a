# OpenBLAS through pkg-config: the target OpenBLAS::OpenBLAS.
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h
          PATH_SUFFIXES x86_64-linux-gnu/openblas-pthread x86_64-linux-gnu aarch64-linux-gnu/openblas-pthread
                        aarch64-linux-gnu openblas)
find_library(OpenBLAS_LIBRARY openblas)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES IMPORTED_LOCATION ${OpenBLAS_LIBRARY})
  if(OpenBLAS_INCLUDE_DIR)
    set_target_properties(OpenBLAS::OpenBLAS PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
  endif()
endif()
