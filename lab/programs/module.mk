# SPDX-License-Identifier: GPL-2.0-only
# Builds the module of the directory whose Makefile includes this file, for the running kernel or that of KDIR.
KDIR ?= /lib/modules/$(shell uname -r)/build

.PHONY: modules clean
modules:
	@[ $(words /$(CURDIR)) = 1 ] || { echo "Kbuild takes no directory with a space in its path: copy this one elsewhere" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

clean:
	rm -rf *.o *.ko *.mod *.mod.c .*.cmd .*.d Module.symvers modules.order .module-common.o
