#!/bin/sh
# SPDX-License-Identifier: MIT
# Every golden model on devices in every way: batches of 1, 5 and 48 in four sequences, half the layers on the CPU in both orders, every
# type of cache after a shift:
#     tests/gpu/models.sh BUILD
# t_golden_devices, a part of ./test.sh, has what doesn't depend on the model go round. With QN_TEST_CUDA=real on the card that is there.
build=${1:?a build folder}
QN_DEVICES_ALL=1 "$build/t_golden_devices"
