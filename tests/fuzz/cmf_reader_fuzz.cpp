// Whatever the bytes: opening a file ends in an Error or in a reader whose every accessor is safe
// to use.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/support/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static cortiq::Pool pool(1);
  const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  CORTIQ_ASSERT(descriptor >= 0);
  CORTIQ_ASSERT(::write(descriptor, data, size) == static_cast<ssize_t>(size));
  try {
    const auto reader = cortiq::cmf::Reader::open("/proc/self/fd/" + std::to_string(descriptor),
                                                  cortiq::cmf::Reader::Hashes::kIgnore);
    unsigned sum = 0;
    for (std::size_t i = 0; i < reader->tensors().size(); ++i) {
      const cortiq::cmf::Payload payload = reader->payload(i);
      for (const std::byte b : payload.bytes()) sum += std::to_integer<unsigned>(b);
      CORTIQ_ASSERT(reader->find(reader->tensors()[i].name) == i);
    }
    for (const std::byte b : reader->vocab()) sum += std::to_integer<unsigned>(b);
    const cortiq::cmf::VerifyReport report = cortiq::cmf::verify(*reader, pool);
    const cortiq::cmf::Summary summary = cortiq::cmf::summarize(*reader);
    CORTIQ_ASSERT(summary.tensors.size() == static_cast<std::size_t>(report.tensors) || sum == 0);
  } catch (const cortiq::Error&) {
  }
  ::close(descriptor);
  return 0;
}
