python pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
  --max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 1 --global-batch-size 64 --bf16 \
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --qk-layernorm --mtp-num-layers 1
