torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 6 --hidden-size 96 --num-attention-heads 6 --seq-length 32 --vocab-size 100 \
  --global-batch-size 8 --micro-batch-size 1 \
  --tensor-model-parallel-size 3
