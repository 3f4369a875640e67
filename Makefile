# foretoken: make, make run, make check. Output goes to build/. README.md explains the variables.
#   CUDA=1            build the CUDA device too (needs nvcc); CUDA_ARCH=90a for one kind of card
#   SAN=a,b           sanitizers: address,undefined or thread; output goes to build-SAN/
#   DEPS=DIR          take headers and libraries from an unpacked folder, install nothing
#   CC=clang          any C11 compiler; PREFIX=/usr/local for install

VERSION := 0.1.0
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
AR      := ar
PREFIX  ?= /usr/local
DESTDIR ?=
comma   := ,
empty   :=
space   := $(empty) $(empty)
BUILD   ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(COV),-$(COV))
ARCH    := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

# ---- libraries: Debian packages, or an unpacked folder ----
LIBS_NEEDED   := jansson libpcre2-8 libutf8proc libxxhash
LIBS_OPTIONAL := libcurl libedit libmicrohttpd libjpeg libpng libwebp
ifdef DEPS
DEPS_LIB := $(firstword $(wildcard $(DEPS)/usr/lib/$(ARCH)-linux-gnu) $(DEPS)/usr/lib)
CPPFLAGS += -isystem $(DEPS)/usr/include -isystem $(DEPS)/usr/include/$(ARCH)-linux-gnu
LDLIBS   += -L$(DEPS_LIB) -Wl,-rpath,$(abspath $(DEPS_LIB)) -Wl,-rpath-link,$(DEPS_LIB) -ljansson -lpcre2-8 -lutf8proc -lxxhash
have      = $(wildcard $(DEPS)/usr/include/$(1))
CMOCKA   := -lcmocka
else
LDLIBS   += $(shell pkg-config --libs $(LIBS_NEEDED) 2>/dev/null || echo -ljansson -lpcre2-8 -lutf8proc -lxxhash)
CPPFLAGS += $(shell pkg-config --cflags $(LIBS_NEEDED) 2>/dev/null)
have      = $(wildcard /usr/include/$(1) /usr/include/$(ARCH)-linux-gnu/$(1))
CMOCKA   := -lcmocka
endif
LIBRARIES := jansson pcre2 utf8proc xxhash
ifneq ($(call have,curl/curl.h),)
CPPFLAGS  += -DFT_HAVE_CURL=1
LDLIBS    += -lcurl
LIBRARIES += curl
endif
ifneq ($(call have,editline/readline.h),)
CPPFLAGS  += -DFT_HAVE_EDIT=1
LDLIBS    += -ledit
LIBRARIES += edit
endif
ifneq ($(call have,microhttpd.h),)
CPPFLAGS  += -DFT_HAVE_HTTPD=1
LDLIBS    += -lmicrohttpd
SERVE     := serve
LIBRARIES += microhttpd
endif
ifneq ($(call have,jpeglib.h),)
CPPFLAGS  += -DFT_HAVE_JPEG=1
LDLIBS    += -ljpeg
LIBRARIES += jpeg
endif
ifneq ($(call have,png.h),)
CPPFLAGS  += -DFT_HAVE_PNG=1
LDLIBS    += -lpng
LIBRARIES += png
endif
ifneq ($(call have,webp/demux.h),)
CPPFLAGS  += -DFT_HAVE_WEBP=1
LDLIBS    += -lwebpdemux -lwebp
LIBRARIES += webp
endif
LDLIBS += -lm -lpthread

# ---- flags ----
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wdouble-promotion \
        -Wundef -Wformat=2 -Wno-pass-failed -Werror
OPT      ?= -O2
CFLAGS   += -std=c11 $(OPT) -g -fPIC -fno-math-errno $(WARN) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -Isrc -Iinclude -DFT_LIBRARIES='"$(strip $(LIBRARIES))"' -DFT_PREFIX='"$(PREFIX)"'
LDFLAGS  += $(if $(SAN),-fsanitize=$(SAN))
KERNEL   := $(if $(SAN),-O1,-O3) -ffp-contract=fast -fno-math-errno -fno-trapping-math

# ---- sources: every .c file belongs to its room ----
LIB_SRC  := $(wildcard src/api/*.c $(foreach r,base image gguf quant tools text kv model engine dev dev/ref dev/cpu $(SERVE),src/$(r)/*.c))
ifeq ($(ARCH),aarch64)
LIB_SRC  += $(wildcard src/dev/cpu/arm/*.c)
else ifeq ($(ARCH),x86_64)
LIB_SRC  += $(wildcard src/dev/cpu/x86/*.c)
endif
CLI_SRC  := $(wildcard src/cli/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/%.o)
LIB      := $(BUILD)/libforetoken.a
BIN      := $(BUILD)/foretoken

ifdef CUDA
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(shell command -v nvcc),/usr/local/cuda/bin/nvcc))
NVCC     ?= $(CUDA_HOME)/bin/nvcc
# machine code for each of these, and for newer cards what their driver compiles from the last one;
# 80/90: the code of 8.0 for cards of 9.0, to try on one what others run
CUDA_ARCH ?= 75 80 86 89 90a 120
NVFLAGS  := -std=c++17 -O3 -g -lineinfo -Isrc -Iinclude -Xcompiler -fPIC,-fno-exceptions,-Wall,-Wno-unused-function --expt-relaxed-constexpr \
            $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(firstword $(subst /, ,$(a)))$(comma)code=sm_$(lastword $(subst /, ,$(a)))) $(if $(filter 120,$(CUDA_ARCH)),-gencode arch=compute_120$(comma)code=compute_120)
CU_SRC   := $(wildcard src/dev/cuda/*.cu)
LIB_OBJ  += $(CU_SRC:%.cu=$(BUILD)/%.cu.o)
LDLIBS   += -L$(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)) -lcudart_static -ldl -lrt -lstdc++
endif

.PHONY: all docs e2e bench-tokenize run check check-build check-cuda check-fast check-ops check-cross cross-build fuzz fuzz-build tidy format layers install install-files uninstall clean deps bench
all: $(BIN) $(BUILD)/libforetoken.so

# A change of flags or commit rebuilds what depends on it. The text is taken here, once: inside a rule
# it would have the additions of whichever object asked first.
FLAGS := $(if $(CUDA),cuda $(CUDA_ARCH) )$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
FORCE:

$(BUILD)/src/api/version.o: CPPFLAGS += -DFT_VERSION='"$(VERSION) ($(COMMIT))"'
$(BUILD)/src/api/version.o: $(BUILD)/commit
$(BUILD)/commit: FORCE
	@mkdir -p $(BUILD)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
$(BUILD)/src/dev/open.o $(BUILD)/src/cli/main.o: CPPFLAGS += $(if $(CUDA),-DFT_HAVE_CUDA=1)
$(BUILD)/src/image/%.o $(BUILD)/src/gguf/%.o $(BUILD)/src/text/%.o $(BUILD)/src/serve/%.o: WARN += -Wconversion
$(BUILD)/src/serve/ui.o: $(wildcard web/*) # baked in
$(BUILD)/src/dev/%.o: CFLAGS += $(KERNEL)
# the same sum in two kernels must round alike: there a fused product is written out
$(BUILD)/src/dev/cpu/%.o $(BUILD)/src/dev/ref/ref_draw.o: KERNEL += -ffp-contract=off
$(BUILD)/src/quant/%.o: CFLAGS += -O3 -ffp-contract=off -fno-trapping-math -funroll-loops
$(BUILD)/src/dev/cpu/arm/dotprod.o: CFLAGS += -march=armv8.2-a+dotprod+fp16
$(BUILD)/src/dev/cpu/arm/i8mm.o: CFLAGS += -march=armv8.2-a+dotprod+fp16+i8mm
$(BUILD)/src/dev/cpu/x86/avx2.o $(BUILD)/src/dev/cpu/x86/avx2_%.o: CFLAGS += -mavx2 -mfma -mf16c
$(BUILD)/src/dev/cpu/x86/avx512.o $(BUILD)/src/dev/cpu/x86/avx512_%.o: CFLAGS += -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(BUILD)/src/dev/cpu/x86/amx.o: CFLAGS += -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  cc $<'
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  nvcc $<'
	@$(NVCC) $(NVFLAGS) -MMD -MF $(@:.o=.d) -c $< -o $@
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^
$(BUILD)/libforetoken.so: $(LIB_OBJ)
	@$(CC) -shared -Wl,-soname,libforetoken.so.0 $(LDFLAGS) $^ $(LDLIBS) -o $@
$(BIN): $(CLI_OBJ) $(LIB)
	@echo '  link $@'
	@$(CC) $(LDFLAGS) $(CLI_OBJ) $(LIB) $(LDLIBS) -o $@

# ---- tests: tests/unit/*.c are programs; tests/cli/*.sh drive the built program ----
TEST_SRC := $(wildcard tests/*.c tests/unit/*.c tests/ops/*.c tests/invariants/*.c $(if $(SERVE),tests/serve/*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(filter-out fuzz/replay.c,$(wildcard fuzz/*.c))
FUZZ_REPLAY := $(FUZZ_SRC:fuzz/%.c=$(BUILD)/fuzz/replay-%)

$(BUILD)/tests/%: tests/%.c $(LIB) $(wildcard tests/*.h tests/serve/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  test $<'
	@$(CC) $(CPPFLAGS) -Itests $(CFLAGS) $(LDFLAGS) $< $(LIB) $(LDLIBS) $(CMOCKA) -o $@
$(BUILD)/fuzz/replay-%: fuzz/%.c fuzz/replay.c $(LIB)
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

deps:
	@$(if $(DEPS),true,scripts/deps.sh)
# all cores compile, unless -j says otherwise
ALL_CORES = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
check: deps
	@$(MAKE) --no-print-directory layers
	@$(MAKE) --no-print-directory $(ALL_CORES) check-build
	@$(MAKE) --no-print-directory check-cuda check-fast
# where there is an nvcc, the CUDA device must build, and say what it misses where there is no card
check-cuda:
	@if ! command -v nvcc >/dev/null; then echo 'no nvcc: the CUDA device is not built'; else \
	$(MAKE) --no-print-directory $(ALL_CORES) CUDA=1 CUDA_ARCH=90a BUILD=build-cuda build-cuda/foretoken && \
	bash tests/cuda.sh build-cuda/foretoken; fi
check-build: all $(TEST_BIN) $(FUZZ_REPLAY) $(BUILD)/bench/page
check-fast: check-build
	@BUILD=$(BUILD) scripts/check.sh
tests: $(TEST_BIN)
# every op against ref: make check-ops DEV=cpu; with BENCH=1 times them instead
DEV     ?= cpu
check-ops: $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/ops/*.c))
	@for t in $^; do $$t --dev $(DEV) $(if $(BENCH),--bench) || exit 1; done
# Kernels this machine cannot run, under qemu's user mode: those of the other architecture, compiled by its
# compiler (op tests need no library but libc), and on Arm those that need i8mm. AVX-512 and AMX are tested
# where they exist.
OTHER    := $(if $(filter x86_64,$(ARCH)),aarch64,x86_64)
DEV_OBJ  := $(filter $(BUILD)/src/base/% $(BUILD)/src/quant/% $(BUILD)/src/dev/%,$(LIB_OBJ))
OPS_NAMES := $(patsubst tests/ops/%.c,%,$(wildcard tests/ops/*.c))
check-cross:
	@scripts/deps.sh cross
	@$(MAKE) --no-print-directory $(ALL_CORES) CC=$(OTHER)-linux-gnu-gcc BUILD=build-$(OTHER) DEPS=none cross-build
	@for t in $(OPS_NAMES); do echo "$(OTHER) $$t"; qemu-$(OTHER) -L /usr/$(OTHER)-linux-gnu -cpu max build-$(OTHER)/cross/$$t --dev cpu || exit 1; done
ifeq ($(ARCH),aarch64)
	@$(MAKE) --no-print-directory $(ALL_CORES) $(BUILD)/tests/ops/linear
	@echo 'i8mm linear'; qemu-aarch64 -cpu max $(BUILD)/tests/ops/linear --dev cpu
endif
cross-build: $(OPS_NAMES:%=$(BUILD)/cross/%)
$(BUILD)/cross/%: tests/ops/%.c $(DEV_OBJ) $(wildcard tests/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  test $<'
	@$(CC) $(CPPFLAGS) -Itests $(CFLAGS) $(LDFLAGS) $< $(DEV_OBJ) -lm -lpthread -o $@
run: deps
	@$(MAKE) --no-print-directory $(ALL_CORES) $(BIN)
	@scripts/greet.sh $(BIN)

# libFuzzer needs clang: make fuzz FUZZ=gguf SECONDS=1800
FUZZ    ?= $(FUZZ_SRC:fuzz/%.c=%)
SECONDS ?= 60
fuzz-build:
	@$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz SAN=fuzzer-no-link,address,undefined build-fuzz/libforetoken.a
	@for f in $(FUZZ); do echo "build fuzz/$$f"; \
	clang $(CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all fuzz/$$f.c build-fuzz/libforetoken.a $(LDLIBS) -o build-fuzz/$$f || exit 1; done
fuzz: fuzz-build
	@for f in $(FUZZ); do mkdir -p build-fuzz/corpus/$$f; \
	build-fuzz/$$f -max_total_time=$(SECONDS) -rss_limit_mb=2048 -timeout=20 -artifact_prefix=build-fuzz/$$f- build-fuzz/corpus/$$f fuzz/corpus/$$f || exit 1; done

# Suites against other programs' own code; they need node, npm and a network.
e2e:
	@for t in tests/e2e/*/run.sh; do BUILD=$(BUILD) bash $$t || exit 1; done
bench-tokenize: $(BUILD)/bench/tokenize
# docs/bench.md and its charts, from the records in docs/bench
docs: $(BUILD)/bench/page
	@$(BUILD)/bench/page docs/bench docs
$(BUILD)/bench/page: bench/page.c $(BUILD)/src/cli/plot.o $(LIB) $(BUILD)/flags
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $< $(BUILD)/src/cli/plot.o $(LIB) $(LDLIBS) -o $@
$(BUILD)/bench/%: bench/%.c $(LIB) $(BUILD)/flags
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $< $(LIB) $(LDLIBS) -o $@

tidy:
	clang-tidy --quiet $(LIB_SRC) $(CLI_SRC) -- -std=c11 $(CPPFLAGS)
format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
layers:
	@scripts/layers.sh

# What goes where below PREFIX; uninstall removes the same. scripts/man.sh asks the built program.
INSTALLED := bin/foretoken include/foretoken.h lib/libforetoken.a lib/libforetoken.so.$(VERSION) lib/libforetoken.so.0 \
             lib/libforetoken.so lib/pkgconfig/foretoken.pc share/bash-completion/completions/foretoken \
             share/zsh/site-functions/_foretoken share/fish/vendor_completions.d/foretoken.fish share/foretoken/foretoken-tiny.gguf
TO = $(DESTDIR)$(PREFIX)
install: all
	@$(MAKE) --no-print-directory install-files
install-files:
	scripts/man.sh $(abspath $(BIN)) $(abspath $(BUILD))/man
	install -d $(sort $(dir $(addprefix $(TO)/,$(INSTALLED)))) $(TO)/share/man/man1
	install -m 755 $(BIN) $(TO)/bin/foretoken
	install -m 644 include/foretoken.h $(TO)/include/
	install -m 644 $(LIB) $(TO)/lib/
	install -m 755 $(BUILD)/libforetoken.so $(TO)/lib/libforetoken.so.$(VERSION)
	ln -sf libforetoken.so.$(VERSION) $(TO)/lib/libforetoken.so.0
	ln -sf libforetoken.so.0 $(TO)/lib/libforetoken.so
	printf 'prefix=%s\nName: foretoken\nDescription: LLM inference with multi-token prediction\nVersion: %s\nLibs: -L$${prefix}/lib -lforetoken\nLibs.private: %s\nCflags: -I$${prefix}/include\n' '$(PREFIX)' '$(VERSION)' '$(LDLIBS)' > $(TO)/lib/pkgconfig/foretoken.pc
	install -m 644 $(BUILD)/man/*.1 $(TO)/share/man/man1/
	install -m 644 completions/foretoken.bash $(TO)/share/bash-completion/completions/foretoken
	install -m 644 completions/_foretoken $(TO)/share/zsh/site-functions/
	install -m 644 completions/foretoken.fish $(TO)/share/fish/vendor_completions.d/
	if [ -f models/foretoken-tiny.gguf ]; then install -m 644 models/foretoken-tiny.gguf $(TO)/share/foretoken/; fi
uninstall:
	rm -f $(addprefix $(TO)/,$(INSTALLED)) $(TO)/share/man/man1/foretoken.1 $(TO)/share/man/man1/foretoken-*.1
	rmdir $(TO)/share/foretoken 2>/dev/null || true
clean:
	rm -rf build build-*
