# Homebrew formula for Linux. Not tested.
# From a checkout: make dist, put the tarball's address and sha256 below, then
#   brew install --build-from-source ./deploy/foretoken.rb
class Foretoken < Formula
  desc "LLM inference with multi-token prediction"
  homepage "https://example.org/foretoken"
  url "https://example.org/foretoken/foretoken-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "pkgconf" => :build
  depends_on "curl"
  depends_on "jansson"
  depends_on "libedit"
  depends_on "libmicrohttpd"
  depends_on :linux
  depends_on "pcre2"
  depends_on "utf8proc"
  depends_on "xxhash"

  def install
    # the formula adds libedit's folder, which Homebrew does not link
    ENV.prepend_path "PKG_CONFIG_PATH", Formula["libedit"].opt_lib/"pkgconfig"
    system "make", "PREFIX=#{prefix}", "install"
  end

  service do
    run [opt_bin/"foretoken", "serve", "--cache-dir", var/"foretoken"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/foretoken --version")
    assert_match "tokens", shell_output("#{bin}/foretoken run --temp 0 -n 8 --show-timings Hello 2>&1")
  end
end
