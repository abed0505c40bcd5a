#!/bin/bash
# Llama-3 8B with Megatron-LM on two hosts of eight A100: a script as teams write them.
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_DEBUG=WARN

NODES=${NODES:-2}
GPUS_PER_NODE=8
TP=8
PP=2
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --max-position-embeddings 8192
    --position-embedding-type rope
    --rotary-base 500000
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --vocab-size 128256
)
TRAINING_ARGS=(
    --seq-length 8192
    --micro-batch-size 1
    --global-batch-size 128
    --train-iters 100000
    --lr 3e-4
    --lr-decay-style cosine
    --lr-warmup-iters 2000
    --weight-decay 0.1
    --clip-grad 1.0
    --hidden-dropout 0
    --attention-dropout 0
    --bf16
    --use-flash-attn
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-parallel
    --use-distributed-optimizer
    --recompute-granularity full
    --recompute-method uniform
    --recompute-num-layers 1
)

torchrun --nnodes $NODES --nproc_per_node $GPUS_PER_NODE \
    --rdzv-backend c10d --rdzv-endpoint "$HEAD_NODE:29500" \
    pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" \
    --data-path /data/c4_text_document \
    --tokenizer-type HuggingFaceTokenizer \
    --tokenizer-model meta-llama/Meta-Llama-3-8B \
    --log-interval 10 --save /checkpoints --save-interval 1000
