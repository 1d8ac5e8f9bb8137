# A7: does a model that was trained with one scheme learn another task better with it, or with another scheme?
# (DN Table 3; EA Tables 2 and 6)
#
#   make -f scripts/experiments/a7.mk -j2 DATA=FOLDER [QUICK=1] [PRETRAINED=FOLDER]
#
# lines/PART.tsv (written or swapped, tab, line) -> logs/START_SCHEME_SEED.jsonl -> the figure loss. START is the
# scheme of the run of A3 whose weights a run begins with, or new.

NAME := a7
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

PRETRAINED ?= $(ROOT)/build/experiments/a3$(if $(QUICK),-quick)/runs
KINDS      := new_none new_unas unas_unas unas_dnas dnas_dnas hnas_hnas
SEEDS      := $(call seeds,4)
PARTS      := train valid test
data        = $(foreach part,$(PARTS),data.$(part)=$(OUT)/lines/$(part).tsv)
from        = $(if $(filter-out new,$(call word_of,1)),--from $(PRETRAINED)/logs-$(call word_of,1)_$(call word_of,3).h5)

all: $(OUT)/baselines.tsv $(OUT)/loss.png

$(PARTS:%=$(OUT)/lines/%.tsv): $(OUT)/lines/%.tsv: $(HERE)/lines
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/lines $* $(DATA)/text/tinyshakespeare.txt >$@.part && mv $@.part $@

$(OUT)/baselines.tsv: $(PARTS:%=$(OUT)/lines/%.tsv)
	$(call baselines,classes,$(OUT)/lines/train.tsv $(OUT)/lines/test.tsv)

LOGS := $(foreach kind,$(KINDS),$(SEEDS:%=$(OUT)/logs/$(kind)_%.jsonl))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a7.toml $(PARTS:%=$(OUT)/lines/%.tsv)
	$(call train,a7,$(data) encoder.self.scheme=$(call word_of,2) seed=$(call word_of,3) \
	  schedule.warm-up=$(call usual,100,10) run.epochs=$(call usual,3,0.3),$(from))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --by encoder.self.scheme --quantity loss,valid.accuracy -o $@
