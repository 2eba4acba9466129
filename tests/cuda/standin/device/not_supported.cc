// Calls that CuPy's runtime module links against and the stand-in does not have: each returns cudaErrorNotSupported.
// CUDA's headers are not included here: these take any arguments.
#define NOT_SUPPORTED(name)                                        \
  extern "C" __attribute__((visibility("default"))) int name(...) { \
    return 801;                                                    \
  }
NOT_SUPPORTED(cudaCreateSurfaceObject)
NOT_SUPPORTED(cudaCreateTextureObject)
NOT_SUPPORTED(cudaDestroySurfaceObject)
NOT_SUPPORTED(cudaDestroyTextureObject)
NOT_SUPPORTED(cudaFreeArray)
NOT_SUPPORTED(cudaGetChannelDesc)
NOT_SUPPORTED(cudaGetTextureObjectResourceDesc)
NOT_SUPPORTED(cudaGetTextureObjectTextureDesc)
NOT_SUPPORTED(cudaGraphDebugDotPrint)
NOT_SUPPORTED(cudaGraphDestroy)
NOT_SUPPORTED(cudaGraphExecDestroy)
NOT_SUPPORTED(cudaGraphInstantiate)
NOT_SUPPORTED(cudaGraphLaunch)
NOT_SUPPORTED(cudaGraphUpload)
NOT_SUPPORTED(cudaMalloc3DArray)
NOT_SUPPORTED(cudaMallocArray)
NOT_SUPPORTED(cudaMallocManaged)
NOT_SUPPORTED(cudaMemAdvise)
NOT_SUPPORTED(cudaMemPoolCreate)
NOT_SUPPORTED(cudaMemPoolDestroy)
NOT_SUPPORTED(cudaMemPrefetchAsync)
NOT_SUPPORTED(cudaMemcpy2DFromArray)
NOT_SUPPORTED(cudaMemcpy2DFromArrayAsync)
NOT_SUPPORTED(cudaMemcpy2DToArray)
NOT_SUPPORTED(cudaMemcpy2DToArrayAsync)
NOT_SUPPORTED(cudaStreamBeginCapture)
NOT_SUPPORTED(cudaStreamEndCapture)
