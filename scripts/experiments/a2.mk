# A2: is SI-Adam better than Adam, and in which attentions? (SI Tables 4 and 5)
#
#   make -f scripts/experiments/a2.mk -j2 DATA=FOLDER [QUICK=1]
#
# logs/VARIANT_SEED.jsonl -> the figure loss.

NAME := a2
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

VARIANTS := adam adam-ones decoder cross encoder all none
SEEDS    := $(call seeds,4)

# adam-ones: Adam from the start of "all". none: Adam, and the decoder does not see the source.
EVERY := encoder.self,decoder.self,decoder.cross
settings_adam      :=
settings_adam-ones := optimizer.start-of=$(EVERY) optimizer.start=ones
settings_decoder   := optimizer.paths=decoder.self optimizer.start=ones
settings_cross     := optimizer.paths=decoder.cross optimizer.start=ones
settings_encoder   := optimizer.paths=encoder.self optimizer.start=ones
settings_all       := optimizer.paths=$(EVERY) optimizer.start=ones
settings_none      := decoder.cross.scheme=none

all: $(OUT)/baselines.tsv $(OUT)/loss.png

$(OUT)/baselines.tsv:
	$(call baselines,pairs,$(DATA)/translit/ar2en-train.txt $(DATA)/translit/ar2en-test.txt)

LOGS := $(foreach v,$(VARIANTS),$(SEEDS:%=$(OUT)/logs/$v_%.jsonl))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a2.toml
	$(call train,a2,$(names) $(settings_$(call word_of,1)) seed=$(call word_of,2) schedule.warm-up=$(call usual,400,40) \
	  run.epochs=$(call usual,20,2))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ --by optimizer.paths,optimizer.start --quantity loss,valid.loss -o $@
