# M1: what does each bias of an alignment bring? (TN §2.3; hard attention, TN §2.5, beside it)
#
#   make -f scripts/experiments/m1.mk -j2 DATA=FOLDER [QUICK=1]
#
# blind: the model of `words`, with one letter as each source. blind/PART.txt has these pairs.
#
# logs/VARIANT_SEED.jsonl -> the figure loss.

NAME := m1
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

VARIANTS := words position previous agreement all hard sampled sampled-baseline blind
SEEDS    := $(call seeds,4)

ALIGNMENT := model.kind=alignment-attention
settings_words     := $(ALIGNMENT)
settings_position  := $(ALIGNMENT) alignment.terms=position
settings_previous  := $(ALIGNMENT) alignment.terms=previous
settings_agreement := $(ALIGNMENT) alignment.agreement=1
settings_all       := $(ALIGNMENT) alignment.terms=position$(comma)previous alignment.agreement=1
settings_blind     := $(ALIGNMENT)
settings_hard      := model.kind=hard-attention
# REINFORCE, in place of all choices.
settings_sampled          := model.kind=hard-attention hard.gradient=sampled
settings_sampled-baseline := model.kind=hard-attention hard.gradient=sampled-baseline

all: $(OUT)/baselines.tsv $(OUT)/loss.png

$(OUT)/baselines.tsv:
	$(call baselines,pairs,$(DATA)/translit/ar2en-train.txt $(DATA)/translit/ar2en-test.txt)

PARTS := train valid test
BLIND := $(PARTS:%=$(OUT)/blind/%.txt)
data   = $(if $(filter blind,$(call word_of,1)),$(foreach part,$(PARTS),data.$(part)=$(OUT)/blind/$(part).txt),$(names))
$(BLIND): $(OUT)/blind/%.txt:
	@mkdir -p $(@D)
	sed 's/^[^\t]*/x/' $(DATA)/translit/ar2en-$(patsubst valid,eval,$*).txt >$@.part && mv $@.part $@

LOGS := $(foreach v,$(VARIANTS),$(SEEDS:%=$(OUT)/logs/$v_%.jsonl))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/m1.toml | $(BLIND)
	$(call train,m1,$(data) $(settings_$(call word_of,1)) seed=$(call word_of,2) run.epochs=$(call usual,3,0.3))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --by model.kind,alignment.terms,alignment.agreement,hard.gradient --quantity loss,valid.loss -o $@
