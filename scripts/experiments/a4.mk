# A4: do dnas and hnas in the encoder write better headlines? (DN Table 2, EA Table 3 and Figure 5)
#
#   make -f scripts/experiments/a4.mk -j2 DATA=FOLDER [QUICK=1]
#
# none: the decoder does not see the text.
#
# pairs/PART.tsv (text, tab, heading) -> logs/SCHEME_SEED.jsonl -> the figures loss
# and shares.

NAME := a4
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

SCHEMES := unas dnas hnas none
SEEDS   := $(call seeds,5)
PARTS   := train valid test
data     = $(foreach part,$(PARTS),data.$(part)=$(OUT)/pairs/$(part).tsv)

all: $(OUT)/baselines.tsv $(OUT)/loss.png $(OUT)/shares.png

$(OUT)/baselines.tsv: $(PARTS:%=$(OUT)/pairs/%.tsv)
	$(call baselines,pairs,$(OUT)/pairs/train.tsv $(OUT)/pairs/test.tsv)

$(PARTS:%=$(OUT)/pairs/%.tsv): $(OUT)/pairs/%.tsv: $(HERE)/headings
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/headings $(DATA)/text/wiki.$*.tokens >$@.part && mv $@.part $@

of   = $(SEEDS:%=$(OUT)/logs/$1_%.jsonl)
LOGS := $(foreach scheme,$(SCHEMES),$(call of,$(scheme)))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a4.toml $(PARTS:%=$(OUT)/pairs/%.tsv)
	$(call train,a4,$(data) $(if $(filter none,$(call word_of,1)),decoder.cross,encoder.self).scheme=$(call word_of,1) seed=$(call word_of,2) \
	  schedule.warm-up=$(call usual,100,10) run.epochs=$(call usual,10,1) run.evaluate-every=$(call usual,100,20))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --quantity loss,valid.loss -o $@
$(OUT)/shares.png: $(call of,hnas)
	$(plot) $^ --quantity u -o $@
