#include "bit_options.hpp"

namespace cortiq::app {

void add_bit_options(CLI::App& command, BitArguments& arguments) {
  command.add_option("--target-bpw", arguments.bits_per_weight,
                     "Mean bits per weight of the matrices of the layers (embedding, head and what "
                     "--tensor-quant names are not counted): chooses q2tp, q4tp, q8_2f or f16 for each by "
                     "its measured loss (needs --hessians)");
  command.add_option("--target-size", arguments.file_size,
                     "The same for a whole file of at most this size: 850MB, 1.5GiB, bytes");
}

pipeline::BitTarget parse_bits(const BitArguments& arguments) {
  pipeline::BitTarget target;
  if (arguments.bits_per_weight && !arguments.file_size.empty())
    fail(ErrorKind::kUsage, "--target-bpw and --target-size: give only one");
  if (arguments.bits_per_weight) {
    if (!(*arguments.bits_per_weight > 0) || *arguments.bits_per_weight > 16)
      fail(ErrorKind::kUsage, "--target-bpw {}: expected a number above 0 and up to 16", *arguments.bits_per_weight);
    target.bits_per_weight = arguments.bits_per_weight;
  }
  if (!arguments.file_size.empty()) target.file_bytes = pipeline::parse_size(arguments.file_size);
  return target;
}

}  // namespace cortiq::app
