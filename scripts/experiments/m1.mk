# M1: what does each bias of an alignment bring? (TN §2.3; hard attention, TN §2.5, beside it)
#
#   make -f scripts/experiments/m1.mk -j2 DATA=FOLDER [QUICK=1]
#
# logs/VARIANT_SEED.jsonl -> table.tsv, the figure loss.

NAME := m1
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

VARIANTS := words position previous agreement all hard
SEEDS    := $(call seeds,4)

ALIGNMENT := model.kind=alignment-attention
settings_words     := $(ALIGNMENT)
settings_position  := $(ALIGNMENT) alignment.terms=position
settings_previous  := $(ALIGNMENT) alignment.terms=previous
settings_agreement := $(ALIGNMENT) alignment.agreement=1
settings_all       := $(ALIGNMENT) alignment.terms=position$(comma)previous alignment.agreement=1
settings_hard      := model.kind=hard-attention

# The metrics, and in which direction one is better.
METRICS := character_error_rate_lower word_accuracy_higher

TABLES := $(OUT)/table.tsv
all: $(TABLES) $(OUT)/loss.png

LOGS := $(foreach v,$(VARIANTS),$(SEEDS:%=$(OUT)/logs/$v_%.jsonl))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/m1.toml
	$(call train,m1,$(names) $(settings_$(call word_of,1)) seed=$(call word_of,2) run.epochs=$(call usual,3,0.3))

better = $(lastword $(subst _, ,$*))
$(METRICS:%=$(OUT)/table-%.tsv): $(OUT)/table-%.tsv: $(LOGS)
	$(call compare,variant,--baseline variant=words --metric test.$(*:%_$(better)=%) --better $(better),$^) >$@.part && mv $@.part $@

$(OUT)/table.tsv: $(METRICS:%=$(OUT)/table-%.tsv)
	$(join)

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --by model.kind,alignment.terms,alignment.agreement --quantity loss,valid.loss -o $@
