LAYERS=$(cat layers.txt)
torchrun --nproc_per_node 8 pretrain_gpt.py \
  --num-layers $LAYERS \
  --hidden-size 64 --num-attention-heads 4 --seq-length 32 --global-batch-size 8
