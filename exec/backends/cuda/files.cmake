# What the CUDA backend is made of. It is compiled twice: for a GPU by nvcc, and as C++ for the tests'
# emulated device (tests/cuda_emulation).
set(cuda_kernels
  backends/cuda/activation.cu
  backends/cuda/add_numbers.cu
  backends/cuda/attention.cu
  backends/cuda/attention_grad.cu
  backends/cuda/attention_grad_keys.cu
  backends/cuda/attention_grad_queries.cu
  backends/cuda/attention_relative.cu
  backends/cuda/bookkeeping.cu
  backends/cuda/context.cu
  backends/cuda/elementwise.cu
  backends/cuda/embedding.cu
  backends/cuda/experts.cu
  backends/cuda/fp8.cu
  backends/cuda/framework_attention.cu
  backends/cuda/framework_elementwise.cu
  backends/cuda/framework_loss.cu
  backends/cuda/framework_norm.cu
  backends/cuda/framework_relative.cu
  backends/cuda/host_mark.cu
  backends/cuda/images.cu
  backends/cuda/linear.cu
  backends/cuda/loss.cu
  backends/cuda/loss_with_grad.cu
  backends/cuda/norm.cu
  backends/cuda/norm_parts.cu
  backends/cuda/optimizer.cu
  backends/cuda/rope.cu
)
set(cuda_sources
  backends/cuda/cuda_backend.cpp
  backends/cuda/cuda_updater.cpp
  backends/cuda/epilogue.cpp
  backends/cuda/framework_products.cpp
  backends/cuda/fused.cpp
  backends/cuda/fused_steps.cpp
  backends/cuda/kernel_library.cpp
  backends/cuda/nvrtc.cpp
  backends/cuda/products.cpp
)
# Several GPUs.
set(nccl_sources
  comm/device_self.cpp
  comm/nccl.cpp
  comm/nccl_about.cpp
  comm/nccl_communicator.cpp
  comm/nccl_link.cpp
  comm/nccl_watch.cpp
)
# What ranks compute with: the table of a program with GPUs, and how several of them talk.
set(cuda_engine engine/cuda.cpp engine/kinds_cuda.cpp)
set(cuda_engine_over_nccl engine/cuda_world_nccl.cpp)
set(cuda_engine_over_host engine/cuda_world_staged.cpp)
