// run.hpp: the command line: parses, runs one command, turns errors into one paragraph and an exit
// code.
#pragma once

namespace cortiq::app {

/// Exit codes: 0 complete; 1 input, I/O or device error; 2 usage; 3 refused by a guard or degraded
/// beyond the limit; 130 interrupted.
int run(int argc, char** argv);

}  // namespace cortiq::app
