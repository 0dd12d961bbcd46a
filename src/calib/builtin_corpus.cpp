// The text of data/calibration.txt inside the program: the assembler copies the file (.incbin),
// which costs no compile time and works for every GCC and Clang target with ELF objects. The build
// rebuilds this file with the text.
#include "cortiq/calib/corpus.hpp"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".global cortiq_calibration_text_begin\n"
    ".hidden cortiq_calibration_text_begin\n"
    "cortiq_calibration_text_begin:\n"
    ".incbin \"" CORTIQ_CALIBRATION_TEXT
    "\"\n"
    ".global cortiq_calibration_text_end\n"
    ".hidden cortiq_calibration_text_end\n"
    "cortiq_calibration_text_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const char cortiq_calibration_text_begin[] __attribute__((visibility("hidden")));
extern const char cortiq_calibration_text_end[] __attribute__((visibility("hidden")));
}

namespace cortiq::calib {

std::string_view builtin_corpus() noexcept {
  return {cortiq_calibration_text_begin,
          static_cast<std::size_t>(cortiq_calibration_text_end - cortiq_calibration_text_begin)};
}

}  // namespace cortiq::calib
