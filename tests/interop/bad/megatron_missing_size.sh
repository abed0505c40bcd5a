torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 12 --hidden-size 768 \
  --seq-length 1024 --micro-batch-size 4 --global-batch-size 8 --bf16
