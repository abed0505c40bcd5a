python pretrain_gpt.py --num-layers 3 --hidden-size 64 --num-attention-heads 4 \
  --seq-length 32 --vocab-size 100 --global-batch-size 8 --pipeline-model-parallel-size 2 \
  --pipeline-model-parallel-layout "Et|t|tL"
