NAME="run
torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64
