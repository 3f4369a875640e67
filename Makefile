# foretoken
#
# Targets
#   make                build/foretoken, build/libforetoken.a and build/libforetoken.so
#   make run            install missing Debian packages, build, and generate a first answer
#   make check          install missing Debian packages, build, and run every test
#   make check-fast     run the tests only; JOBS=N runs N at a time
#   make check-unit     build and run tests/unit and the test of the exported symbols
#   make check-ops      every op against the reference device: DEV=cpu or cuda; BENCH=1 times them
#   make check-cross    kernels of other CPUs under qemu's user mode
#   make fuzz           fuzz the parsers (needs clang): FUZZ="gguf bpe" SECONDS=1800
#   make install        into PREFIX (/usr/local); make uninstall removes it again
#   make dist           build/foretoken-VERSION.tar.gz from the current commit
#   make docs           docs/bench.md and its charts, from docs/bench/*.json
#   make bench-check    measure again what docs/bench has of this kind of machine; fail if slower,
#                       or if drafting misses its bars (BARS="-d cuda" for those of a GPU)
#   make layers         check the includes between modules and the names of types
#   make tidy format    clang-tidy, clang-format
#   make clean          remove build/ and build-*/
#
# Variables
#   CFLAGS CPPFLAGS LDFLAGS LDLIBS   added to our own flags
#   CC=clang            the C compiler (C11)
#   OPT=-O2             optimisation level of everything but the kernels
#   WERROR=1            warnings are errors (continuous integration sets it)
#   MPI=1               models over several machines: ranks of an MPI job (needs Open MPI)
#   CUDA=1              build the CUDA device (needs nvcc); CUDA_ARCH="90a" for one kind of GPU
#   VULKAN=1            build the Vulkan device (needs the Vulkan headers, its loader and glslang)
#   SAN=address,undefined   sanitizers, or SAN=thread; output goes to build-SAN/
#   BUILD=DIR           output folder
#   DEPS=DIR            headers and libraries from an unpacked folder; needs no pkg-config
#   PKG_CONFIG=NAME     the pkg-config program
#   WITHOUT="libcurl"   leave out these optional libraries: libcurl libedit libmicrohttpd libjpeg
#                       libpng libwebpdemux
#   PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR ZSHDIR UNITDIR DESTDIR   where to install

VERSION   := $(shell cat VERSION)
SOVERSION := 0
ifeq ($(origin CC),default)
CC        := gcc
endif
comma     := ,
BUILD     ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
TRIPLE    := $(shell $(CC) -dumpmachine)
ARCH      := $(firstword $(subst -, ,$(TRIPLE)))
# Empty outside of a checkout. Where git refuses, as for another user's files under sudo, the last one.
COMMIT    := $(if $(wildcard .git),$(shell git rev-parse --short=12 HEAD 2>/dev/null || cat $(BUILD)/commit 2>/dev/null))

PREFIX     ?= $(or $(prefix),/usr/local)
BINDIR     ?= $(or $(bindir),$(PREFIX)/bin)
LIBDIR     ?= $(or $(libdir),$(PREFIX)/lib)
INCLUDEDIR ?= $(or $(includedir),$(PREFIX)/include)
DATADIR    ?= $(or $(datadir),$(PREFIX)/share)
MANDIR     ?= $(or $(mandir),$(DATADIR)/man)
ZSHDIR     ?= $(DATADIR)/zsh/site-functions
UNITDIR    ?= $(PREFIX)/lib/systemd/system
DESTDIR    ?=

# ---- libraries: found with pkg-config, or by their headers in DEPS ----
ifdef DEPS
found = $(wildcard $(DEPS)/usr/include/$(2) $(DEPS)/usr/include/$(ARCH)-linux-gnu/$(2))
else
PKG_CONFIG ?= $(firstword $(shell command -v $(TRIPLE)-pkg-config pkg-config 2>/dev/null) pkg-config)
found = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes)
endif
add      = $(eval PACKAGES += $(1))$(eval DEPS_LIBS += $(3))
# pkg-config name, header, linker flag
needed   = $(if $(found),$(add),$(eval MISSING += $(1)))
# the same, then the macro that the sources test, and what the program lacks without the library
optional = $(if $(filter-out $(WITHOUT),$(if $(found),$(1))),$(add)$(eval HAVE += -D$(4)=1),$(eval ABSENT := $(ABSENT)$(if $(ABSENT),$(comma) )$(1) ($(5))))

$(call needed,jansson,jansson.h,-ljansson)
$(call needed,libpcre2-8,pcre2.h,-lpcre2-8)
$(call needed,libutf8proc,utf8proc.h,-lutf8proc)
$(call needed,libxxhash,xxhash.h,-lxxhash)
$(call optional,libcurl,curl/curl.h,-lcurl,FT_HAVE_CURL,no downloads)
$(call optional,libedit,editline/readline.h,-ledit,FT_HAVE_EDIT,no line editing)
$(call optional,libmicrohttpd,microhttpd.h,-lmicrohttpd,FT_HAVE_HTTPD,no serve)
$(call optional,libjpeg,jpeglib.h,-ljpeg,FT_HAVE_JPEG,no JPEG images)
$(call optional,libpng,png.h,-lpng,FT_HAVE_PNG,no PNG images)
$(call optional,libwebpdemux,webp/demux.h,-lwebpdemux -lwebp,FT_HAVE_WEBP,no WebP images)

# MPI, found by pkg-config or mpicc. Only src/dev/link.c calls it.
MPI_PACKAGE  := $(if $(DEPS),,$(firstword $(foreach p,ompi-c mpi-c mpich,$(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null && echo $(p)))))
MPI_FLAGS    := $(if $(MPI_PACKAGE),$(shell $(PKG_CONFIG) --cflags --libs $(MPI_PACKAGE)),$(wordlist 2,99,$(shell mpicc -show 2>/dev/null)))
MPI_CPPFLAGS := -DFT_HAVE_MPI=1 $(patsubst -I%,-isystem %,$(filter -I%,$(MPI_FLAGS)))
MPI_LIBS     := $(filter -L% -l% -Wl%,$(MPI_FLAGS))
$(if $(and $(MPI),$(if $(MPI_LIBS),,none)),$(eval MISSING += mpi))

# The shared library has neither the server nor the file tools, and needs fewer libraries.
PROGRAM_ONLY := libcurl libedit libmicrohttpd
LIB_PACKAGES := $(filter-out $(PROGRAM_ONLY),$(PACKAGES))
SERVE     := $(if $(filter libmicrohttpd,$(PACKAGES)),serve)
SYS_LIBS  := -lm -lpthread
ifdef DEPS
DEPS_DIR  := $(firstword $(wildcard $(DEPS)/usr/lib/$(ARCH)-linux-gnu) $(DEPS)/usr/lib)
LIB_FLAGS := -isystem $(DEPS)/usr/include -isystem $(DEPS)/usr/include/$(ARCH)-linux-gnu
LIBS      := -L$(DEPS_DIR) -Wl,-rpath,$(abspath $(DEPS_DIR)) -Wl,-rpath-link,$(DEPS_DIR) $(DEPS_LIBS)
CMOCKA    := -lcmocka
else
LIB_FLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LIBS      := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null)
CMOCKA    := $(shell $(PKG_CONFIG) --cflags --libs cmocka 2>/dev/null || echo -lcmocka)
endif

# ---- flags: ours, then the user's, then those that a file cannot do without (FILE_CFLAGS) ----
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wdouble-promotion \
        -Wundef -Wformat=2 -Wno-pass-failed $(if $(WERROR),-Werror)
OPT          ?= -O2
SANITIZE     := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CPPFLAGS := -Isrc -Iinclude $(LIB_FLAGS) $(HAVE) $(CPPFLAGS)
ALL_CFLAGS   := -std=c11 $(OPT) -g -fPIC -fvisibility=hidden -fno-math-errno $(SANITIZE) $(CFLAGS)
ALL_LDFLAGS  := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
ALL_LIBS      = $(LIBS) $(if $(MPI),$(MPI_LIBS)) $(SYS_LIBS) $(LDLIBS)
KERNEL       := $(if $(SAN),-O1,-O3) -ffp-contract=fast -fno-math-errno -fno-trapping-math
# Hardening (HARDEN= leaves it out; tests/cli/build_flags.sh checks the program). The kernels of
# dev/cpu go without: they only see shapes that were checked before.
HARDEN ?= 1
ifeq ($(HARDEN)$(SAN),1)
HARDENED    := -fstack-protector-strong -fstack-clash-protection $(if $(filter aarch64,$(ARCH)),-mbranch-protection=standard)$(if $(filter x86_64,$(ARCH)),-fcf-protection) \
               $(if $(filter -O0,$(OPT)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
ALL_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack $(ALL_LDFLAGS)
PIE         := -pie
endif
COMPILE       = $(CC) $(ALL_CPPFLAGS) $(FILE_CPPFLAGS) $(WARN) $(HARDENED) $(ALL_CFLAGS) $(FILE_CFLAGS)

# ---- sources: every .c file of a module belongs to the library, those of cli/ to the program ----
MODULES  := api base report image gguf quant tools text kv model engine dev dev/ref dev/cpu $(SERVE)
MODULES  += $(if $(filter aarch64,$(ARCH)),dev/cpu/arm) $(if $(filter x86_64,$(ARCH)),dev/cpu/x86)
LIB_SRC  := $(wildcard $(MODULES:%=src/%/*.c))
CLI_SRC  := $(wildcard src/cli/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/%.o)
SO_OBJ    = $(filter-out $(BUILD)/src/serve/% $(BUILD)/src/report/% $(BUILD)/src/tools/%,$(LIB_OBJ))
LIB      := $(BUILD)/libforetoken.a
SO       := $(BUILD)/libforetoken.so
BIN      := $(BUILD)/foretoken

ifdef CUDA
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(shell command -v nvcc),/usr/local/cuda/bin/nvcc))
NVCC      ?= $(CUDA_HOME)/bin/nvcc
# Machine code for each of these. For newer GPUs the driver compiles the code of the last one.
# 80/90 means the code of 8.0 for GPUs of 9.0: it tests on one GPU what others run.
CUDA_ARCH ?= 75 80 86 89 90a 120
NVFLAGS   := -std=c++17 -O3 -g -lineinfo -Isrc -Iinclude -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-Wall,-Wno-unused-function \
             --expt-relaxed-constexpr \
             $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(firstword $(subst /, ,$(a)))$(comma)code=sm_$(lastword $(subst /, ,$(a)))) \
             $(if $(filter 120,$(CUDA_ARCH)),-gencode arch=compute_120$(comma)code=compute_120) $(NVCC_MORE)
CU_SRC    := $(wildcard src/dev/cuda/*.cu src/dev/cuda/*/*.cu)
LIB_OBJ   += $(CU_SRC:%.cu=$(BUILD)/%.cu.o)
SYS_LIBS  += -L$(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)) -lcudart_static -ldl -lrt -lstdc++
endif

GLSLANG   ?= glslangValidator
VK_LIBS   := $(if $(call found,vulkan,vulkan/vulkan.h),-lvulkan)
VK_SPV    := $(patsubst src/dev/vulkan/shaders/%.comp,$(BUILD)/vulkan/%.spv.h,$(wildcard src/dev/vulkan/shaders/*.comp))
VK_OBJ    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/dev/vulkan/*.c))
ifdef VULKAN
$(if $(VK_LIBS),,$(eval MISSING += vulkan))
LIB_OBJ   += $(VK_OBJ)
SYS_LIBS  += $(VK_LIBS)
endif

.DELETE_ON_ERROR:
.PHONY: all docs help run deps check check-build check-fast check-unit check-cuda check-ops check-cross cross-build tests fuzz fuzz-build \
        e2e bench-tokenize bench-check tidy format layers install install-files uninstall dist clean
all: $(BIN) $(SO)

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

# Every object depends on $(BUILD)/flags, which changes when the flags do. Its rule also reports the
# libraries that were not found.
NOT_FOUND = foretoken needs $(strip $(MISSING)): $(if $(DEPS),no headers in $(DEPS)/usr/include,not found by $(PKG_CONFIG)); README.md names the packages
$(BUILD)/flags: export FLAGS := $(CC) $(WARN) $(HARDENED) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS) $(if $(MPI),$(MPI_LIBS)) without $(ABSENT) $(if $(CUDA),cuda $(CUDA_ARCH) $(NVCC_MORE)) $(if $(VULKAN),vulkan $(GLSLANG))
$(BUILD)/flags: FORCE
	@$(if $(MISSING),echo '$(NOT_FOUND)'; exit 1)
	@mkdir -p $(BUILD)
	@if ! printf '%s\n' "$$FLAGS" | cmp -s - $@; then printf '%s\n' "$$FLAGS" > $@$(if $(ABSENT),; echo 'building without $(ABSENT)'); fi
FORCE:

# A new commit, or another DATADIR, recompiles the sources that name it and not all of them.
uses         = $(patsubst %.c,$(BUILD)/%.o,$(shell grep -lw $(1) $(wildcard src/api/*.c)))
VERSION_OBJ := $(call uses,FT_VERSION)
DATADIR_OBJ := $(call uses,FT_DATADIR)
$(VERSION_OBJ): FILE_CPPFLAGS += -DFT_VERSION='"$(VERSION)$(if $(COMMIT), ($(COMMIT)))"'
$(VERSION_OBJ): VERSION $(BUILD)/commit
$(DATADIR_OBJ): FILE_CPPFLAGS += -DFT_DATADIR='"$(DATADIR)"'
$(DATADIR_OBJ): $(BUILD)/datadir
$(BUILD)/commit: STAMP = $(COMMIT)
$(BUILD)/datadir: STAMP = $(DATADIR)
$(BUILD)/commit $(BUILD)/datadir: FORCE
	@mkdir -p $(BUILD)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@

$(if $(MPI),$(eval $(BUILD)/src/dev/link.o: FILE_CPPFLAGS += $(MPI_CPPFLAGS)))
$(BUILD)/src/cli/main.o: FILE_CPPFLAGS += -DFT_LIBRARIES='"$(patsubst lib%,%,$(PACKAGES:-8=))$(if $(MPI), mpi)"' -DFT_ABSENT='"$(ABSENT)"'
$(BUILD)/src/dev/open.o $(BUILD)/src/cli/main.o: FILE_CPPFLAGS += $(if $(CUDA),-DFT_HAVE_CUDA=1) $(if $(VULKAN),-DFT_HAVE_VULKAN=1)
# shaders, as arrays of SPIR-V
$(BUILD)/vulkan/%.spv.h: src/dev/vulkan/shaders/%.comp $(wildcard src/dev/vulkan/shaders/*.glsl) $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  glsl $<'
	@$(GLSLANG) --quiet -V --target-env vulkan1.2 -Isrc/dev/vulkan/shaders --vn $*_spv -o $@ $<
$(BUILD)/src/dev/vulkan/pipeline.o: $(VK_SPV)
$(BUILD)/src/dev/vulkan/pipeline.o: FILE_CPPFLAGS += -I$(BUILD)/vulkan
# the web page: web/ and, where found, Debian's JavaScript libraries
$(BUILD)/web/files.inc: FORCE
	@scripts/web.sh $(BUILD)/web $(DEPS)
$(BUILD)/src/serve/ui.o: $(wildcard web/*) $(BUILD)/web/files.inc
$(BUILD)/src/serve/ui.o: FILE_CPPFLAGS += -I$(BUILD)/web
$(BUILD)/src/image/%.o $(BUILD)/src/gguf/%.o $(BUILD)/src/text/%.o $(BUILD)/src/report/%.o $(BUILD)/src/serve/%.o: WARN += -Wconversion
$(BUILD)/src/dev/%.o: FILE_CFLAGS += $(KERNEL)
$(BUILD)/src/dev/cpu/%.o: HARDENED :=
# No fuzz target runs a kernel, and clang takes minutes to instrument them.
$(BUILD)/src/dev/cpu/%.o: FILE_CFLAGS += $(if $(findstring fuzzer,$(SAN)),-fno-sanitize=all)
# Two kernels that compute the same sum must round alike: fused multiply-adds are written out there.
$(BUILD)/src/dev/cpu/%.o $(BUILD)/src/dev/ref/ref_draw.o: KERNEL += -ffp-contract=off
$(BUILD)/src/quant/%.o: FILE_CFLAGS += -O3 -ffp-contract=off -fno-trapping-math -funroll-loops
AVX2   := -mavx2 -mfma -mf16c
AVX512 := $(AVX2) -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(BUILD)/src/dev/cpu/arm/dotprod.o: FILE_CFLAGS += -march=armv8.2-a+dotprod+fp16
$(BUILD)/src/dev/cpu/arm/fhm.o: FILE_CFLAGS += -march=armv8.2-a+fp16fml
$(BUILD)/src/dev/cpu/arm/i8mm.o: FILE_CFLAGS += -march=armv8.2-a+dotprod+fp16+i8mm
$(BUILD)/src/dev/cpu/arm/bf16.o: FILE_CFLAGS += -march=armv8.2-a+bf16
$(BUILD)/src/dev/cpu/x86/avx2.o $(BUILD)/src/dev/cpu/x86/avx2_%.o: FILE_CFLAGS += $(AVX2)
$(BUILD)/src/dev/cpu/x86/avxvnni.o: FILE_CFLAGS += $(AVX2) -mavxvnni
$(BUILD)/src/dev/cpu/x86/avx512.o $(BUILD)/src/dev/cpu/x86/avx512_%.o: FILE_CFLAGS += $(AVX512)
$(BUILD)/src/dev/cpu/x86/avx512vnni.o $(BUILD)/src/dev/cpu/x86/avx512vnni_%.o: FILE_CFLAGS += $(AVX512) -mavx512vnni
$(BUILD)/src/dev/cpu/x86/amx.o $(BUILD)/src/dev/cpu/x86/amx_%.o: FILE_CFLAGS += $(AVX512) -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  cc $<'
	@$(COMPILE) -MMD -MP -c $< -o $@
$(BUILD)/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  nvcc $<'
	@$(NVCC) $(NVFLAGS) -MMD -MF $(@:.o=.d) -c $< -o $@
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(VK_OBJ:.o=.d)

# The program and the tests link the static library. The shared one exports foretoken.h only.
$(LIB): $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^
$(BUILD)/libforetoken.map: include/foretoken.h scripts/exports.sh $(BUILD)/flags
	@CC='$(CC)' scripts/exports.sh $< FORETOKEN_$(SOVERSION) > $@
$(SO): $(SO_OBJ) $(BUILD)/libforetoken.map
	@echo '  link $@'
	@$(CC) -shared -Wl,-soname,libforetoken.so.$(SOVERSION) -Wl,--version-script=$(BUILD)/libforetoken.map \
	-Wl,--as-needed $(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) $(SO_OBJ) $(ALL_LIBS) -o $@
	@ln -sf $(@F) $@.$(SOVERSION)
$(BIN): $(CLI_OBJ) $(LIB)
	@echo '  link $@'
	@$(CC) $(PIE) $(ALL_LDFLAGS) $(CLI_OBJ) $(LIB) $(ALL_LIBS) -o $@

# ---- tests: a .c file is a program; tests/cli/*.sh test the built program ----
TEST_SRC := $(wildcard tests/*.c tests/unit/*.c tests/ops/*.c tests/invariants/*.c $(if $(SERVE),tests/serve/*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(filter-out fuzz/replay.c,$(wildcard fuzz/*.c))
FUZZ_REPLAY := $(FUZZ_SRC:fuzz/%.c=$(BUILD)/fuzz/replay-%)

$(BUILD)/tests/%: tests/%.c $(LIB) $(wildcard tests/*.h tests/serve/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	@echo '  test $<'
	@$(COMPILE) -Itests $(ALL_LDFLAGS) $< $(LIB) $(ALL_LIBS) $(CMOCKA) -o $@
$(BUILD)/fuzz/replay-%: fuzz/%.c fuzz/replay.c $(LIB)
	@mkdir -p $(@D)
	@$(COMPILE) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@

deps:
	@$(if $(DEPS),true,scripts/deps.sh)
# compile on all cores, unless -j was given
ALL_CORES = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
run: deps
	@$(MAKE) --no-print-directory $(ALL_CORES) $(BIN)
	@scripts/greet.sh $(BIN)
check: deps
	@$(MAKE) --no-print-directory layers
	@$(MAKE) --no-print-directory $(ALL_CORES) check-build
	@$(MAKE) --no-print-directory check-cuda check-fast
tests: $(TEST_BIN)
MPI_TESTS := $(addprefix $(BUILD)/mpi/,foretoken drafting ending split lora pipeline rank_prefix images)
VK_TESTS  := $(if $(VK_LIBS),$(if $(SAN)$(VULKAN),,$(if $(shell command -v $(GLSLANG) 2>/dev/null),$(addprefix $(BUILD)/vk/,foretoken plain delta draw))))
# $(BUILD)/cross/lora: whether op tests link without other libraries, as check-cross needs it.
check-build: all $(TEST_BIN) $(FUZZ_REPLAY) $(BUILD)/cross/lora $(BUILD)/bench/page $(BUILD)/bench/long $(BUILD)/bench/context $(BUILD)/bench/drafting $(if $(findstring FT_HAVE_CURL=1,$(ALL_CPPFLAGS)),$(BUILD)/bench/clients) $(if $(MPI_LIBS),$(if $(SAN),,$(MPI_TESTS))) $(VK_TESTS)
# The program and some op tests with Vulkan, for tests/cli/vulkan.sh: src/dev/vulkan, and one source
# file that differs.
$(BUILD)/vk/open.o: src/dev/open.c $(BUILD)/flags
	@mkdir -p $(@D)
	@$(COMPILE) -DFT_HAVE_VULKAN=1 -c $< -o $@
$(BUILD)/vk/foretoken: $(BUILD)/vk/open.o $(VK_OBJ) $(CLI_OBJ) $(LIB)
	@$(CC) $(PIE) $(ALL_LDFLAGS) $^ $(ALL_LIBS) $(VK_LIBS) -o $@
$(BUILD)/vk/%: tests/ops/%.c $(BUILD)/vk/open.o $(VK_OBJ) $(LIB)
	@$(COMPILE) -Itests $(ALL_LDFLAGS) $^ $(ALL_LIBS) $(VK_LIBS) -o $@
# The program and some invariants with MPI, for tests/cli/mpi.sh: one source file differs.
$(BUILD)/mpi/link.o: src/dev/link.c $(BUILD)/flags
	@mkdir -p $(@D)
	@$(COMPILE) $(MPI_CPPFLAGS) -c $< -o $@
$(BUILD)/mpi/foretoken: $(BUILD)/mpi/link.o $(CLI_OBJ) $(LIB)
	@$(CC) $(PIE) $(ALL_LDFLAGS) $(BUILD)/mpi/link.o $(CLI_OBJ) $(LIB) $(ALL_LIBS) $(MPI_LIBS) -o $@
$(BUILD)/mpi/%: tests/invariants/%.c $(BUILD)/mpi/link.o $(LIB)
	@$(COMPILE) -Itests $(ALL_LDFLAGS) $< $(BUILD)/mpi/link.o $(LIB) $(ALL_LIBS) $(MPI_LIBS) $(CMOCKA) -o $@
check-fast: check-build
	@BUILD='$(BUILD)' CC='$(CC)' scripts/check.sh
check-unit: all $(filter $(BUILD)/tests/unit/%,$(TEST_BIN))
	@BUILD='$(BUILD)' CC='$(CC)' scripts/check.sh unit
# Where there is an nvcc, the CUDA device must build, and report a missing GPU. No kernel runs here,
# so nvcc compiles fast instead of well where it can (from CUDA 12.9 on): 3 minutes instead of 5.6.
check-cuda:
	@if ! command -v nvcc >/dev/null; then echo 'no nvcc: the CUDA device is not built'; else \
	$(MAKE) --no-print-directory $(ALL_CORES) CUDA=1 CUDA_ARCH=90a BUILD=build-cuda-check \
	    NVCC_MORE="$$(nvcc --help | grep -q -e --Ofast-compile && echo -Ofc max)" build-cuda-check/foretoken && \
	bash tests/cuda.sh build-cuda-check/foretoken; fi
DEV     ?= cpu
check-ops: $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/ops/*.c))
	@for t in $^; do $$t --dev $(DEV) $(if $(BENCH),--bench) || exit 1; done
# Kernels that this machine cannot run, under qemu's user mode: those of the other architecture,
# compiled by its compiler (the op tests need no library but libc; xxhash is inlined), and on Arm
# those that need i8mm. AVX-512 and AMX are tested on machines that have them.
OTHER    := $(if $(filter x86_64,$(ARCH)),aarch64,x86_64)
DEV_OBJ  := $(filter $(BUILD)/src/base/% $(BUILD)/src/quant/% $(BUILD)/src/dev/% $(BUILD)/src/tools/synth_blocks.o,$(LIB_OBJ))
OPS_NAMES := $(patsubst tests/ops/%.c,%,$(wildcard tests/ops/*.c))
check-cross:
	@scripts/deps.sh cross
	@$(MAKE) --no-print-directory $(ALL_CORES) CC=$(OTHER)-linux-gnu-gcc BUILD=build-$(OTHER) DEPS=none MISSING= CPPFLAGS=-DXXH_INLINE_ALL cross-build
	@for t in $(OPS_NAMES); do echo "$(OTHER) $$t"; qemu-$(OTHER) -L /usr/$(OTHER)-linux-gnu -cpu max build-$(OTHER)/cross/$$t --dev cpu || exit 1; done
ifeq ($(ARCH),aarch64)
	@$(MAKE) --no-print-directory $(ALL_CORES) $(BUILD)/tests/ops/linear
	@echo 'i8mm linear'; qemu-aarch64 -cpu max $(BUILD)/tests/ops/linear --dev cpu
endif
cross-build: $(OPS_NAMES:%=$(BUILD)/cross/%)
$(BUILD)/cross/dev.a: $(DEV_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^
$(BUILD)/cross/%: tests/ops/%.c $(BUILD)/cross/dev.a $(wildcard tests/*.h) $(BUILD)/flags
	@echo '  test $<'
	@$(COMPILE) -Itests $(ALL_LDFLAGS) $< $(BUILD)/cross/dev.a $(if $(findstring XXH_INLINE_ALL,$(CPPFLAGS)),,-lxxhash) -lm -lpthread -o $@

FUZZ    ?= $(FUZZ_SRC:fuzz/%.c=%)
SECONDS ?= 60
fuzz-build:
	@$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz SAN=fuzzer-no-link,address,undefined build-fuzz/libforetoken.a
	@for f in $(FUZZ); do echo "build fuzz/$$f"; \
	clang $(ALL_CPPFLAGS) -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all fuzz/$$f.c build-fuzz/libforetoken.a $(ALL_LIBS) -o build-fuzz/$$f || exit 1; done
fuzz: fuzz-build
	@for f in $(FUZZ); do mkdir -p build-fuzz/corpus/$$f; \
	build-fuzz/$$f -max_total_time=$(SECONDS) -rss_limit_mb=2048 -timeout=20 -artifact_prefix=build-fuzz/$$f- build-fuzz/corpus/$$f fuzz/corpus/$$f || exit 1; done

# Tests with the code of other projects; they need node, npm, chromium and a network, and those of
# llama.cpp's server a checkout of it: LLAMA=FOLDER.
e2e: $(BUILD)/foretoken $(BUILD)/tests/serve_scripted
	@for t in tests/e2e/*/run.sh; do BUILD=$(BUILD) bash $$t || exit 1; done
bench-tokenize: $(BUILD)/bench/tokenize
# Repeats the measurements of the records of this kind of machine; fails if one is 5 % slower.
bench-check: $(BUILD)/foretoken $(BUILD)/bench/drafting
	@bash scripts/bench_check.sh docs/bench $(BUILD)/foretoken; checked=$$?; bash scripts/bench_bars.sh -b $(BUILD) $(BARS) docs/bench && exit $$checked
# docs/bench.md and its charts, from the records in docs/bench
docs: $(BUILD)/bench/page
	@$(BUILD)/bench/page docs/bench docs
$(BUILD)/bench/page: bench/page.c $(BUILD)/src/cli/plot.o $(LIB) $(BUILD)/flags
	@mkdir -p $(@D)
	@$(COMPILE) $(ALL_LDFLAGS) $< $(BUILD)/src/cli/plot.o $(LIB) $(ALL_LIBS) -o $@
$(BUILD)/bench/%: bench/%.c $(LIB) $(BUILD)/flags
	@mkdir -p $(@D)
	@$(COMPILE) $(ALL_LDFLAGS) $< $(LIB) $(ALL_LIBS) -o $@

tidy:
	clang-tidy --quiet $(LIB_SRC) $(CLI_SRC) -- -std=c11 $(ALL_CPPFLAGS) $(foreach m,VERSION DATADIR LIBRARIES ABSENT,-DFT_$(m)='""')
format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
layers:
	@scripts/layers.sh

# ---- installation: uninstall removes the same files ----
INSTALLED := $(BINDIR)/foretoken $(INCLUDEDIR)/foretoken.h $(LIBDIR)/libforetoken.a $(LIBDIR)/libforetoken.so \
             $(LIBDIR)/libforetoken.so.$(SOVERSION) $(LIBDIR)/libforetoken.so.$(VERSION) $(LIBDIR)/pkgconfig/foretoken.pc \
             $(DATADIR)/bash-completion/completions/foretoken $(ZSHDIR)/_foretoken \
             $(DATADIR)/fish/vendor_completions.d/foretoken.fish $(DATADIR)/foretoken/foretoken-tiny.gguf \
             $(addprefix $(DATADIR)/foretoken/prompts/,$(notdir $(wildcard bench/prompts/*.txt))) \
             $(UNITDIR)/foretoken.service
install: all
	@$(MAKE) --no-print-directory install-files
# installs what was built; scripts/man.sh runs the built program
install-files:
	scripts/man.sh $(abspath $(BIN)) $(abspath $(BUILD))/man
	install -d $(sort $(dir $(addprefix $(DESTDIR),$(INSTALLED)))) $(DESTDIR)$(MANDIR)/man1
	install -m 755 $(BIN) $(DESTDIR)$(BINDIR)/foretoken
	install -m 644 include/foretoken.h $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(LIB) $(DESTDIR)$(LIBDIR)/
	install -m 755 $(SO) $(DESTDIR)$(LIBDIR)/libforetoken.so.$(VERSION)
	ln -sf libforetoken.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libforetoken.so.$(SOVERSION)
	ln -sf libforetoken.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libforetoken.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@PACKAGES@|$(if $(DEPS),,$(LIB_PACKAGES))|' -e 's|@LIBS@|$(strip $(if $(DEPS),$(DEPS_LIBS)) $(SYS_LIBS))|' \
	    include/foretoken.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/foretoken.pc
	install -m 644 $(BUILD)/man/*.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 completions/foretoken.bash $(DESTDIR)$(DATADIR)/bash-completion/completions/foretoken
	install -m 644 completions/_foretoken $(DESTDIR)$(ZSHDIR)/
	install -m 644 completions/foretoken.fish $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/
	install -m 644 models/foretoken-tiny.gguf $(DESTDIR)$(DATADIR)/foretoken/
	install -m 644 bench/prompts/*.txt $(DESTDIR)$(DATADIR)/foretoken/prompts/
	sed 's|/usr/local/bin|$(BINDIR)|' deploy/foretoken.service > $(DESTDIR)$(UNITDIR)/foretoken.service
uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED)) $(DESTDIR)$(MANDIR)/man1/foretoken.1 $(DESTDIR)$(MANDIR)/man1/foretoken-*.1
	rmdir $(DESTDIR)$(DATADIR)/foretoken/prompts $(DESTDIR)$(DATADIR)/foretoken 2>/dev/null || true

# the files of a commit, without what was built
DIST := foretoken-$(VERSION)
dist:
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -9n > $(BUILD)/$(DIST).tar.gz
clean:
	rm -rf build build-*
