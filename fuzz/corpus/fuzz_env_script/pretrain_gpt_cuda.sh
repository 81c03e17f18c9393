#!/bin/bash
# A GPT of 1.3 billion parameters on eight GPUs of one node.
set -euo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
export NCCL_ALGO=Ring
export NVTE_FLASH_ATTN=1

GPUS_PER_NODE=8
NNODES=1
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=2
PP=1
MICRO_BATCH=4
ACCUMULATE=8
GLOBAL_BATCH=$((MICRO_BATCH * ACCUMULATE * WORLD_SIZE / (TP * PP)))

DATA=/data/gpt/corpus_text_document
VOCAB=/data/gpt/tokenizer.model

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr "localhost"
    --master_port 6000
)

MODEL_ARGS=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 4096
    --max-position-embeddings 4096
    --normalization RMSNorm
    --norm-epsilon 1e-5
    --position-embedding-type rope
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --init-method-std 0.02
)

TRAINING_ARGS="
    --micro-batch-size $MICRO_BATCH \
    --global-batch-size ${GLOBAL_BATCH} \
    --train-iters 50000 \
    --lr 3.0e-4 \
    --min-lr 3.0e-5 \
    --lr-decay-style cosine \
    --lr-warmup-iters 500 \
    --weight-decay 0.1 \
    --adam-beta1 0.9 \
    --adam-beta2 0.95 \
    --adam-eps 1e-8 \
    --clip-grad 1.0 \
    --bf16 \
    --use-flash-attn \
    --attention-softmax-in-fp32 \
    --seed 1234
"

PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-parallel
    --use-distributed-optimizer
    --distributed-backend nccl
)

OUTPUT_ARGS=(
    --log-interval 10
    --save-interval 1000
    --save /results/gpt_cuda
    --tensorboard-dir /results/gpt_cuda/tensorboard
)

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    $TRAINING_ARGS \
    "${PARALLEL_ARGS[@]}" \
    "${OUTPUT_ARGS[@]}" \
    --data-path $DATA \
    --tokenizer-type Llama2Tokenizer \
    --tokenizer-model $VOCAB \
    --split 98,2,0 2>&1 | tee train_cuda.log
