ARGS="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 --global-batch-size 8 --micro-batch-size 1"
torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS \
  --bf16 \
  --fp16
