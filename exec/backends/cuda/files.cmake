# Lists the sources of the CUDA backend. They are compiled twice: for a GPU by nvcc, and as C++ for the tests'
# emulated device (tests/cuda_emulation).
set(cuda_kernels
  backends/cuda/attention/attention.cu
  backends/cuda/attention/attention_grad.cu
  backends/cuda/attention/attention_grad_keys.cu
  backends/cuda/attention/attention_grad_queries.cu
  backends/cuda/attention/attention_relative.cu
  backends/cuda/attention/context.cu
  backends/cuda/attention/eager_attention.cu
  backends/cuda/attention/eager_relative.cu
  backends/cuda/attention/latent.cu
  backends/cuda/attention/rope.cu
  backends/cuda/attention/sinks.cu
  backends/cuda/device/add_numbers.cu
  backends/cuda/device/host_mark.cu
  backends/cuda/loss/eager_loss.cu
  backends/cuda/loss/loss.cu
  backends/cuda/loss/loss_with_grad.cu
  backends/cuda/optimizer/adafactor.cu
  backends/cuda/optimizer/adam.cu
  backends/cuda/optimizer/adam_in_blocks.cu
  backends/cuda/optimizer/choice_biases.cu
  backends/cuda/optimizer/lamb.cu
  backends/cuda/optimizer/muon.cu
  backends/cuda/optimizer/one_moment.cu
  backends/cuda/optimizer/orthogonal.cu
  backends/cuda/optimizer/update_scalars.cu
  backends/cuda/products/counted.cu
  backends/cuda/products/linear.cu
  backends/cuda/rows/activation.cu
  backends/cuda/rows/bookkeeping.cu
  backends/cuda/rows/elementwise.cu
  backends/cuda/rows/embedding.cu
  backends/cuda/rows/expert_rows.cu
  backends/cuda/rows/experts.cu
  backends/cuda/rows/eager_elementwise.cu
  backends/cuda/rows/eager_norm.cu
  backends/cuda/rows/images.cu
  backends/cuda/rows/norm.cu
  backends/cuda/rows/norm_parts.cu
  backends/cuda/rows/quantized.cu
)
set(cuda_sources
  backends/cuda/attention/attention_library.cpp
  backends/cuda/cuda_backend.cpp
  backends/cuda/device/streams.cpp
  backends/cuda/fused/epilogue.cpp
  backends/cuda/fused/fused.cpp
  backends/cuda/fused/fused_steps.cpp
  backends/cuda/fused/kernel_library.cpp
  backends/cuda/fused/nvrtc.cpp
  backends/cuda/optimizer/cuda_updater.cpp
  backends/cuda/optimizer/optimizer.cpp
  backends/cuda/products/eager_products.cpp
  backends/cuda/products/products.cpp
)
# With cuDNN's headers (tools/cmake/FindCUDNN.cmake).
set(cudnn_sources backends/cuda/attention/cudnn_attention.cpp)
# Several GPUs.
set(nccl_sources
  comm/device_self.cpp
  comm/nccl.cpp
  comm/nccl_about.cpp
  comm/nccl_communicator.cpp
  comm/nccl_link.cpp
  comm/nccl_watch.cpp
  comm/own_messages.cpp
)
# Lists what ranks compute with: the table of a program with GPUs, and how several of them talk.
set(cuda_engine engine/cuda.cpp engine/kinds_cuda.cpp)
set(cuda_engine_over_nccl engine/cuda_world_nccl.cpp)
set(cuda_engine_over_host engine/cuda_world_staged.cpp)
