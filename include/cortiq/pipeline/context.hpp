// context.hpp: what every job gets from the program: workers, log, the request to stop.
#pragma once

#include "cortiq/support/interrupt.hpp"
#include "cortiq/support/log.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::pipeline {

struct Context {
  Pool& pool;
  Log& log;
  const Interrupt& interrupt;
};

}  // namespace cortiq::pipeline
