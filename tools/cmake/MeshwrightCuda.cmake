# The CUDA language, for the architectures of AWS's machines that this toolkit has: V100 (p3; CUDA 12
# is the last), A100 (p4d), H100 and H200 (p5), and newer ones from the newest one's PTX.
if(NOT MESHWRIGHT_CUDA)
  message(STATUS "no CUDA backend (MESHWRIGHT_CUDA is off)")
  return()
endif()
if(NOT CUDAToolkit_FOUND OR CUDAToolkit_VERSION VERSION_LESS 12.8)  # kernels as libraries: 12.8
  message(FATAL_ERROR "MESHWRIGHT_CUDA is on, but there is no CUDA toolkit (12.8 or newer): install it, "
                      "name it with -DCUDAToolkit_ROOT=FOLDER, or build with -DMESHWRIGHT_CUDA=OFF")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-arch
                  OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  set(wanted 70 80 90)
  foreach(architecture ${wanted})
    if(known MATCHES "compute_${architecture}[^0-9a-z]")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
endif()
set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "nvcc")
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know that nvcc has it
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
