# M2: do several hops, and the penalty that keeps them apart, help structured self-attention? (TN §2.2)
#
#   make -f scripts/experiments/m2.mk -j2 DATA=FOLDER [QUICK=1]
#
# speeches/PART.tsv -> logs/HOPS_PENALTY_SEED.jsonl -> the figure loss. off_diagonal is the mean
# overlap of two hops.

NAME := m2
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

HOPS      := 1 4 8
PENALTIES := 0 1
SEEDS     := $(call seeds,5)
PARTS     := train valid test
data       = $(foreach part,$(PARTS),data.$(part)=$(OUT)/speeches/$(part).tsv)

all: $(OUT)/baselines.tsv $(OUT)/loss.png

$(OUT)/baselines.tsv: $(PARTS:%=$(OUT)/speeches/%.tsv)
	$(call baselines,classes,$(OUT)/speeches/train.tsv $(OUT)/speeches/test.tsv)

$(PARTS:%=$(OUT)/speeches/%.tsv): $(OUT)/speeches/%.tsv: $(HERE)/speeches
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/speeches $* $(DATA)/text/tinyshakespeare.txt >$@.part && mv $@.part $@

LOGS := $(foreach h,$(HOPS),$(foreach p,$(PENALTIES),$(SEEDS:%=$(OUT)/logs/$h_$p_%.jsonl)))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/m2.toml $(PARTS:%=$(OUT)/speeches/%.tsv)
	$(call train,m2,$(data) structured.hops=$(call word_of,1) structured.penalty=$(call word_of,2) \
	  seed=$(call word_of,3) run.epochs=$(call usual,8,0.8))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --by structured.hops,structured.penalty --quantity loss,valid.accuracy -o $@
