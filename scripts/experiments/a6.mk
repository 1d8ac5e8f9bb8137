# A6: do more iterations of Sinkhorn, or of expectation-maximisation, help over the one of dnas? (EA 3.2
# and 3.3, DN A) em-T has variance 1, ev-T estimates it.
#
#   make -f scripts/experiments/a6.mk -j2 [QUICK=1]
#
# scenes/PART.h5 -> logs/SCHEME_SEED.jsonl -> the figure loss.

NAME := a6
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk
include $(HERE)/scenes.mk

SCHEMES := dnas sinkhorn-2 sinkhorn-5 em-2 ev-2
SEEDS   := $(call seeds,5)

all: $(OUT)/baselines.tsv $(OUT)/loss.png

parts    = $(subst -, ,$(call word_of,1))
settings = views.scheme=$(patsubst ev,em,$(word 1,$(parts))) $(if $(filter ev,$(parts)),views.estimate-variance=true) $(if $(word 2,$(parts)),views.iterations=$(word 2,$(parts)))
LOGS := $(foreach scheme,$(SCHEMES),$(SEEDS:%=$(OUT)/logs/$(scheme)_%.jsonl))
$(LOGS): $(OUT)/logs/%.jsonl: $(HERE)/recipes/a5.toml $(PARTS:%=$(OUT)/scenes/%.h5)
	$(call train,a5,$(data) $(settings) seed=$(call word_of,2) \
	  schedule.warm-up=$(call usual,100,10) run.steps=$(call usual,3000,300))

$(OUT)/loss.png: $(LOGS)
	$(plot) $^ $(SCHEMES:%=--label %) --quantity loss,valid.accuracy -o $@
