#!/usr/bin/env bash
# A cell of the truncation-error experiment (ODE Transformer, Table 5): trains a language model of one or two layers on
# the Penn Treebank, takes the perplexity of its best checkpoint, writes a record.
#
# Usage: scripts/ptb.sh SYSTEM [options] [-- more flags of fairseq-train]
#   SYSTEM             residual, rk2, rk2-unit (gamma = 1), rk2-learnable, or rk4
#   --layers N         1 or 2 (default: 1)
#   --form FORM        paper, or released: F is the layer with its residual (default: paper)
#   --seed N           (default: 1)
#   --small            a rehearsal for a CPU: width 128, 4 heads, 3 epochs, warm-up 200
#   --data DIR         default: data-bin/ptb, made by data-prep/prepare-ptb.sh if it is not there
#   --run-dir DIR      where checkpoints and logs go (default: runs/ptb/SYSTEM-LAYERS and what else differs)
#   --record FILE      where the record goes (default: DIR/record.json)
#   --cpu, --fp16      as for scripts/train.sh
#   --dry-run          print the commands only
#
# The paper's protocol is 20 epochs, Adam (.9, .997) with a learning rate of .0007 after 2,000 updates, 4,096 tokens,
# dropout .1. It leaves open how the text is cut: here into blocks of 512 tokens that do not heed sentences. A run that
# was stopped goes on from its last checkpoint.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

system='' layers=1 form=paper seed=1 small=0 data=$root/data-bin/ptb run_dir='' record='' extra=() dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --layers) layers=$(argument --layers "$@"); shift ;;
    --form) form=$(argument --form "$@"); shift ;;
    --seed) seed=$(argument --seed "$@"); shift ;;
    --small) small=1 ;;
    --data) data=$(absolute "$(argument --data "$@")"); shift ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --record) record=$(absolute "$(argument --record "$@")"); shift ;;
    --cpu) keep_freed_memory; extra+=("$1") ;;
    --fp16) extra+=("$1") ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $system ]] || die "one SYSTEM, got $system and $1"; system=$1 ;;
    esac
    shift
done
case $system in
residual) step=(--decoder-integrator euler) ;;
rk2) step=(--decoder-integrator heun) ;;
rk2-unit) step=(--decoder-integrator heun --coefficients ones) ;;
rk2-learnable) step=(--decoder-integrator heun --coefficients sigmoid) ;;
rk4) step=(--decoder-integrator rk4) ;;
*) die "SYSTEM '$system': must be one of residual, rk2, rk2-unit, rk2-learnable, rk4" ;;
esac
[[ $layers =~ ^[12]$ ]] || die "--layers $layers: must be 1 or 2"
[[ $form =~ ^(paper|released)$ ]] || die "--form $form: must be paper or released"
[[ $seed =~ ^[0-9]+$ ]] || die "--seed $seed: must be a number"

name=$system-$layers
if [[ $form == released ]]; then name+=.released; fi
if [[ $small -eq 1 ]]; then name=small/$name; fi
run_dir=${run_dir:-$(absolute "$root/runs/ptb/$name.seed-$seed")}
cd "$root"
cut=(--tokens-per-sample 512 --sample-break-mode none)
command=(fairseq-train "$data" --user-dir ode_transformer --task language_modeling "${cut[@]}"
    --arch "ode_transformer_lm_ptb_${layers}l" "${step[@]}" --ode-residual "$form" --dropout 0.1
    --criterion chunked_label_smoothed_cross_entropy --label-smoothing 0.0
    --optimizer fused_adam --adam-betas '(0.9, 0.997)' --clip-norm 0.0
    --lr 0.0007 --lr-scheduler inverse_sqrt --warmup-updates 2000 --warmup-init-lr 1e-07
    --distributed-world-size 1 --max-tokens 4096 --required-batch-size-multiple 1 --max-epoch 20 --seed "$seed"
    --update-epoch-batch-itr True --save-dir "$run_dir" --no-epoch-checkpoints
    --log-format json --log-interval 50 --no-progress-bar)
if [[ $small -eq 1 ]]; then
    command+=(--decoder-embed-dim 128 --decoder-ffn-embed-dim 512 --decoder-attention-heads 4
        --max-epoch 3 --warmup-updates 200)
fi
command+=("${extra[@]}" "$@")

# The perplexity of a split, as fairseq's own program has it; kept in a log.
evaluate() {
    local words=(fairseq-eval-lm "$data" --user-dir ode_transformer --path "$run_dir/checkpoint_best.pt"
        --gen-subset "$1" --max-tokens 4096 "${cut[@]}" --required-batch-size-multiple 1 "${extra[@]}")
    if [[ $dry_run -eq 1 ]]; then
        printf '%q ' "${words[@]}"
        echo
    else
        run "${words[@]}" 2>&1 | tee "$run_dir/eval.$1.log.part"
        mv "$run_dir/eval.$1.log.part" "$run_dir/eval.$1.log"
    fi
}

if [[ $dry_run -eq 1 ]]; then
    printf '%q ' data-prep/prepare-ptb.sh --out "$data"
    echo
    printf '%q ' "${command[@]}"
    echo
    evaluate valid
    evaluate 'test'
    exit
fi
[[ -e $data ]] || run data-prep/prepare-ptb.sh --out "$data"
train_alone "$run_dir" "${command[@]}"
evaluate valid
evaluate 'test'
run python -m ode_transformer curve "$run_dir" --output "${record:-$run_dir/record.json}"
