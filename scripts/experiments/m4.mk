# M4: does attention find the alignment of words? (TN §2.4)
#
#   make -f scripts/experiments/m4.mk -j2 DATA=FOLDER [QUICK=1]
#
# pairs.tsv -> logs/VARIANT_SEED.jsonl, whose last line has the alignment error rate. The pairs are trained on and
# judged, as those of aligners without supervision are.

NAME := m4
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

VARIANTS := words terms agreement cross
SEEDS    := $(call seeds,4)
GOLD      = $(DATA)/alignment/enfr.gold
PAIRS    := $(OUT)/pairs.tsv

# cross: a layer that attends to the source's words as they are.
ALIGNMENT := model.kind=alignment-attention run.steps=$(call usual,500,20)
settings_words     := $(ALIGNMENT)
settings_terms     := $(ALIGNMENT) alignment.terms=position$(comma)previous
settings_agreement := $(settings_terms) alignment.agreement=1
settings_cross     := data.joint=true model.heads=1 encoder.self.scheme=none decoder.self.scheme=none run.dropout=0.3 \
                      run.steps=$(call usual,2000,20)
weights = $(if $(filter cross,$(call word_of,1)),decoder/layer0/cross,alignment)

all: $(OUT)/baselines.tsv $(foreach v,$(VARIANTS),$(SEEDS:%=$(OUT)/logs/$v_%.jsonl))

$(PAIRS):
	@mkdir -p $(@D)
	sed 's/ *||| */\t/; s/ *$$//' $(DATA)/alignment/enfr.src-tgt >$@.part && mv $@.part $@

$(OUT)/baselines.tsv: $(PAIRS)
	$(call baselines,alignments,$(PAIRS) $(GOLD))

$(OUT)/logs/%.jsonl: $(HERE)/recipes/m4.toml $(PAIRS)
	$(call train,m4,$(foreach part,train valid test,data.$(part)=$(PAIRS)) $(settings_$(call word_of,1)) seed=$(call word_of,2))
	@alignment-attention measure $(run).h5:/weights/$(weights) --gold $(GOLD) --json | \
	  $(PYTHON) $(HERE)/with-alignment-error $@
