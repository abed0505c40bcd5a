# What the CUDA backend is made of. It is compiled twice: for a GPU by nvcc, and as C++ for the tests'
# emulated device (tests/cuda_emulation).
set(cuda_kernels
  backends/cuda/activation.cu
  backends/cuda/bookkeeping.cu
  backends/cuda/context.cu
  backends/cuda/elementwise.cu
  backends/cuda/embedding.cu
  backends/cuda/experts.cu
  backends/cuda/framework_attention.cu
  backends/cuda/framework_elementwise.cu
  backends/cuda/framework_loss.cu
  backends/cuda/framework_norm.cu
  backends/cuda/framework_relative.cu
  backends/cuda/images.cu
  backends/cuda/linear.cu
  backends/cuda/loss.cu
  backends/cuda/norm.cu
  backends/cuda/norm_parts.cu
  backends/cuda/optimizer.cu
  backends/cuda/rope.cu
)
set(cuda_sources
  backends/cuda/cuda_backend.cpp
  backends/cuda/cuda_updater.cpp
  backends/cuda/framework_products.cpp
  backends/cuda/products.cpp
)
