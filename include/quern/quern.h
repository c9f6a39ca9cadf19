/* SPDX-License-Identifier: MIT */
/* quern/quern.h -- all of it.
 *
 * Each header here also stands alone and includes what its users need: a program of tensors may take quern/ops.h and
 * quern/nn.h, one that runs models quern/engine.h. */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/base.h>
#include <quern/batch.h>
#include <quern/chat.h>
#include <quern/compare.h>
#include <quern/dlpack.h>
#include <quern/engine.h>
#include <quern/functional.h>
#include <quern/functions.h>
#include <quern/gguf.h>
#include <quern/grammar.h>
#include <quern/graph.h>
#include <quern/lens.h>
#include <quern/machine.h>
#include <quern/messages.h>
#include <quern/metrics.h>
#include <quern/nn.h>
#include <quern/npy.h>
#include <quern/ops.h>
#include <quern/optim.h>
#include <quern/perplexity.h>
#include <quern/safetensors.h>
#include <quern/store.h>
#include <quern/tap.h>
#include <quern/tensor.h>
#include <quern/text.h>
#include <quern/trace.h>
#include <quern/train.h>

#endif
