# A3: what becomes of u in a masked language model, and which keys are explained away? (DN Figure 4, EA
# Figure 4)
#
#   make -f scripts/experiments/a3.mk -j2 DATA=FOLDER [QUICK=1]
#
# logs/SCHEME_SEED.jsonl -> the figures loss, shares, heads, sums, away.

NAME := a3
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

# none: the same model without attention.
SCHEMES := none unas dnas hnas fenchel transport
SEEDS   := $(call seeds,4)

all: $(OUT)/baselines.tsv $(foreach name,loss shares heads sums away,$(OUT)/$(name).png)

of   = $(SEEDS:%=$(OUT)/logs/$1_%.jsonl)
LOGS := $(foreach scheme,$(SCHEMES),$(call of,$(scheme)))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a3.toml
	$(call train,a3,data.text=$(DATA)/text/tinyshakespeare.txt encoder.self.scheme=$(call word_of,1) seed=$(call word_of,2) \
	  schedule.warm-up=$(call usual,200,20) run.steps=$(call usual,4000,200) run.evaluate-every=$(call usual,200,50))

$(OUT)/baselines.tsv:
	$(call baselines,hidden,$(DATA)/text/tinyshakespeare.txt)

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --quantity loss,valid.accuracy -o $@
$(OUT)/shares.png: $(call of,hnas)
	$(plot) $^ --quantity u -o $@
$(OUT)/heads.png: $(call of,hnas)
	$(plot) $^ --quantity u --heads -o $@
$(OUT)/sums.png: $(LOGS)
	$(plot) $^ --quantity least_column_sum -o $@
$(OUT)/away.png: $(LOGS)
	$(plot) $^ --quantity explained_away -o $@
