torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 \
  --global-batch-size 8 --micro-batch-size 1 \
  --use-distributed-optimizer \
  --num-distributed-optimizer-instances 3
