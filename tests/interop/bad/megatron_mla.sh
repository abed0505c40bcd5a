python pretrain_gpt.py --num-layers 27 --hidden-size 2048 --num-attention-heads 16 --swiglu \
  --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
  --seq-length 4096 --global-batch-size 8 --vocab-size 102400 \
  --multi-latent-attention
