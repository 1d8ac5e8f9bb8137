# A5: does attention between views help to answer questions, and which? (DN Figures 1 and 3, Table 1; EA
# Figures 1 and 3, Tables 1 and 4)
#
#   make -f scripts/experiments/a5.mk -j2 [QUICK=1]
#
# scenes/PART.h5 -> logs/HEADS_SCHEME_SEED.jsonl -> the figures loss, shares and sums.
# Scheme none: the boxes of all views are those of one.

NAME := a5
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk
include $(HERE)/scenes.mk

HEADS   := 1 4
SCHEMES := none unas dnas hnas
SEEDS   := $(call seeds,5)

all: $(OUT)/baselines.tsv $(foreach name,loss shares sums,$(OUT)/$(name).png)

of    = $(SEEDS:%=$(OUT)/logs/$1_%.jsonl)
# Without attention there are no heads.
KINDS := 1_none $(foreach heads,$(HEADS),$(foreach scheme,$(filter-out none,$(SCHEMES)),$(heads)_$(scheme)))
LOGS  := $(foreach kind,$(KINDS),$(call of,$(kind)))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a5.toml $(PARTS:%=$(OUT)/scenes/%.h5)
	$(call train,a5,$(data) model.heads=$(call word_of,1) views.scheme=$(call word_of,2) seed=$(call word_of,3) \
	  schedule.warm-up=$(call usual,100,10) run.steps=$(call usual,3000,300))

$(OUT)/loss.png: $(LOGS)
	$(plot) $(foreach scheme,$(SCHEMES),$(call of,1_$(scheme))) --quantity loss,valid.accuracy -o $@
$(OUT)/shares.png: $(foreach heads,$(HEADS),$(call of,$(heads)_hnas))
	$(plot) $^ --quantity u -o $@
$(OUT)/sums.png: $(LOGS)
	$(plot) $(foreach scheme,$(filter-out none,$(SCHEMES)),$(call of,1_$(scheme))) --quantity least_column_sum -o $@
