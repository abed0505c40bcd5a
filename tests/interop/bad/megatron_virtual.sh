python pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 \
  --seq-length 32 --vocab-size 100 --global-batch-size 8 --pipeline-model-parallel-size 2 \
  --num-layers-per-virtual-pipeline-stage 3
