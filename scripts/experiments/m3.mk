# M3: how far do the other mechanisms come on a task of their own? (TN §2.1, §2.6 to §2.8)
#
#   make -f scripts/experiments/m3.mk -j2 DATA=FOLDER [QUICK=1]
#
# lists/PART.tsv (questions of spans) -> logs/TASK_SEED.jsonl -> the figures loss-TASK.

NAME := m3
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

TASKS := matches cloze next spans
SEEDS := $(call seeds,4)
PARTS := train valid test

SHAKESPEARE     = data.text=$(DATA)/text/tinyshakespeare.txt
data_matches    = $(names) run.epochs=$(call usual,3,0.3)
data_cloze      = $(SHAKESPEARE) run.steps=$(call usual,1000,100)
data_next       = $(SHAKESPEARE) run.steps=$(call usual,1000,100)
data_spans      = $(foreach part,$(PARTS),data.$(part)=$(OUT)/lists/$(part).tsv) run.epochs=$(call usual,3,0.3)

all: $(OUT)/baselines.tsv $(TASKS:%=$(OUT)/loss-%.png)

$(OUT)/baselines.tsv:
	$(call baselines,characters,$(DATA)/text/tinyshakespeare.txt)

$(PARTS:%=$(OUT)/lists/%.tsv): $(OUT)/lists/%.tsv: $(HERE)/lists
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/lists $* $(if $(filter train,$*),6000,500) >$@.part && mv $@.part $@

of   = $(SEEDS:%=$(OUT)/logs/$1_%.jsonl)
LOGS := $(foreach task,$(TASKS),$(call of,$(task)))
$(LOGS): $(OUT)/logs/%.jsonl: $(TASKS:%=$(HERE)/recipes/m3-%.toml) $(PARTS:%=$(OUT)/lists/%.tsv)
	$(call train,m3-$(call word_of,1),$(data_$(call word_of,1)) seed=$(call word_of,2))

$(foreach task,$(TASKS),$(eval $(OUT)/loss-$(task).png: $(call of,$(task))))
$(TASKS:%=$(OUT)/loss-%.png):
	$(plot) $^ --quantity loss,valid.loss -o $@
