#include "cortiq/calib/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/support/error.hpp"
#include "read_file.hpp"

namespace cortiq::calib {
namespace {

void check(int result) {
  if (result != 1)
    fail(ErrorKind::kUnsupported, "SHA-256: the OpenSSL library of this system refuses it; install one that allows SHA-256");
}

std::string hex_digest(EVP_MD_CTX* context) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  check(EVP_DigestFinal_ex(context, digest.data(), &length));
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    check(context != nullptr ? 1 : 0);
    check(EVP_DigestInit_ex(context, EVP_sha256(), nullptr));
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteSpan bytes) {
  check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::peek() const {
  const State copy;
  check(EVP_MD_CTX_copy_ex(copy.context, state_->context));
  return hex_digest(copy.context);
}

std::string Sha256::finish() { return hex_digest(state_->context); }

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.finish();
}

std::string sha256_file(const std::filesystem::path& path) {
  constexpr std::size_t kPieceBytes = 1 << 20;
  const ReadFile file(path);
  std::vector<std::byte> piece(kPieceBytes);
  Sha256 hash;
  std::uint64_t offset = 0;
  for (;;) {
    const std::size_t got = file.read_some(offset, piece);
    hash.update(std::span(piece).first(got));
    offset += got;
    if (got < piece.size()) return hash.finish();
  }
}

}  // namespace cortiq::calib
